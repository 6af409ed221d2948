"""Traps that are named before a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from goalrunner.app.preflight import weaknesses_of
from goalrunner.core.goal_tables import Expectation, ValidatorSpec


def weaknesses(line: str) -> tuple[str, ...]:
    return weaknesses_of(ValidatorSpec(run=line))


@pytest.mark.parametrize(
    ("line", "said", "instead"),
    [
        (
            "pytest -q | tee log",
            "the exit code of `pytest -q | tee log` is tee's",
            "bash -o pipefail -c 'pytest -q | tee log'",
        ),
        (
            "npm test | tail -5",
            "the exit code of `npm test | tail -5` is tail's",
            "bash -o pipefail -c 'npm test | tail -5'",
        ),
        ("pytest || true", "`pytest || true` passes even if pytest fails", "pytest"),
        ("cd x && npm test || :", "`cd x && npm test || :` passes even if npm fails", "cd x && npm test"),
        ("pytest; true", "the exit code of `pytest; true` is not pytest's", "set -e; pytest; true"),
        ("npm test; exit 0", "the exit code of `npm test; exit 0` is not npm's", "set -e; npm test; exit 0"),
        (
            "npm ci; npm test; echo ok",
            "the exit code of `npm test; echo ok` is not npm's",
            "set -e; npm ci; npm test; echo ok",
        ),
        ("pytest; echo $?", "the exit code of `pytest; echo $?` is not pytest's", "set -e; pytest; echo $?"),
        ("pytest &", "`pytest &` does not wait for pytest", "pytest"),
        (
            "make 2>&1 test | cat",
            "the exit code of `make 2>&1 test | cat` is cat's",
            "bash -o pipefail -c 'make 2>&1 test | cat'",
        ),
        ("./check.sh 2>&1 || :", "`./check.sh 2>&1 || :` passes even if check.sh fails", "./check.sh 2>&1"),
        ("sh -c 'pytest | cat'", "the exit code of `pytest | cat` is cat's", "bash -o pipefail -c 'pytest | cat'"),
    ],
)
def test_a_trap_is_named_with_a_line_that_has_none(line: str, said: str, instead: str) -> None:
    assert weaknesses(line) == (f"{said}; write: {instead}",)
    assert weaknesses(instead) == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("npx jest --passWithNoTests", ("`--passWithNoTests` of jest passes if there is no test",)),
        ("make -i check", ("`-i` of make passes even if its commands fail",)),
        ("make --ignore-errors check", ("`--ignore-errors` of make passes even if its commands fail",)),
    ],
)
def test_an_option_that_makes_a_check_pass_is_named(line: str, said: tuple[str, ...]) -> None:
    assert weaknesses(line) == said


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("grep x missing || true", "grep x missing"),
        ("grep x missing | tail", "bash -o pipefail -c 'grep x missing | tail'"),
        ("grep x missing; echo done", "set -e; grep x missing; echo done"),
    ],
)
def test_the_line_to_paste_can_be_red(tmp_path: Path, line: str, instead: str) -> None:
    assert weaknesses(line)[0].endswith(f"; write: {instead}")
    ends = [subprocess.run(["sh", "-c", one], cwd=tmp_path, capture_output=True).returncode for one in (line, instead)]
    assert ends[0] == 0
    assert ends[1] != 0


@pytest.mark.parametrize(
    "line",
    [
        "pytest -q",
        "cd sub; export A=1; pytest",
        "set -e; ruff check .; pytest",
        "bash -euo pipefail -c 'ruff check .; pytest | tee log'",
        "uv run pytest || pytest",
        "ruff check . && mypy src && pytest",
        "git diff --quiet || echo changed && pytest",
        "pytest > log 2>&1",
        "if test -d tests; then pytest; fi",
        "pytest 'unclosed",
        "pytest; code=$?; rm -rf tmp; exit $code",
        "grep x f; test $? -eq 1",
        "if grep -q TODO src; then exit 1; fi",
        "! pytest",
        "npm test && echo ok",
        "npm test || exit 1",
        "rm -f x || true; npm test",
        "cat f | head -5",
        'test "$(git status --porcelain | head -1)" = ""',
        "cd x; export A=1; echo ok",
    ],
)
def test_an_honest_line_has_none(line: str) -> None:
    assert weaknesses(line) == ()


def test_a_validator_whose_output_decides_has_no_trap() -> None:
    line = "pytest | tail -1"
    assert weaknesses_of(ValidatorSpec(run=line))
    assert not weaknesses_of(ValidatorSpec(run=line, expect=Expectation(output="3 passed")))
    assert not weaknesses_of(ValidatorSpec(run="! grep x f", expect=Expectation(exit_code=1)))
    assert not weaknesses_of(ValidatorSpec(python="checks:done"))
