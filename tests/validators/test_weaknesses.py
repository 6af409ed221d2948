"""Traps that are named before a run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from goalrunner.core.goal_tables import Expectation, ValidatorSpec
from goalrunner.validators.weaknesses import weaknesses_of


def weaknesses(line: str) -> tuple[str, ...]:
    return weaknesses_of(ValidatorSpec(run=line))


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        (
            "pytest -q | sort | tee log",
            "`| tee log` gives the exit code of tee, not of pytest; write: bash -o pipefail -c 'pytest -q | sort | tee log'",
        ),
        (
            "npm test | tail",
            "`| tail` gives the exit code of tail, not of npm; write: bash -o pipefail -c 'npm test | tail'",
        ),
        ("cd x && npm test || :", "`|| :` passes even if npm fails; remove it"),
        (
            "./check.sh 2>&1 || exit 0",
            "`|| exit 0` passes even if check.sh fails; remove it",
        ),
        (
            "npm ci; npm test; echo ok",
            "the exit code of npm is lost behind `;`; write: set -e; npm ci; npm test; echo ok",
        ),
        (
            "pytest; echo $?",
            "the exit code of pytest is lost behind `;`; write: set -e; pytest; echo $?",
        ),
        ("pytest &", "`&` does not wait for pytest; remove it"),
    ],
)
def test_a_trap_is_named_with_a_line_that_has_none(line: str, warning: str) -> None:
    assert weaknesses(line) == (warning,)
    _, is_given, instead = warning.partition("; write: ")
    assert not is_given or weaknesses(instead) == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "npx jest --passWithNoTests",
            ("`--passWithNoTests` of jest passes if there is no test",),
        ),
        ("make -i check", ("`-i` of make passes even if its commands fail",)),
        (
            "make --ignore-errors check",
            ("`--ignore-errors` of make passes even if its commands fail",),
        ),
    ],
)
def test_an_option_that_makes_a_check_pass_is_named(
    line: str, said: tuple[str, ...]
) -> None:
    assert weaknesses(line) == said


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("grep x missing | tail", "bash -o pipefail -c 'grep x missing | tail'"),
        ("grep x missing; echo done", "set -e; grep x missing; echo done"),
    ],
)
def test_the_line_to_paste_can_be_red(tmp_path: Path, line: str, instead: str) -> None:
    assert weaknesses(line)[0].endswith(f"; write: {instead}")
    ends = [
        subprocess.run(["sh", "-c", one], cwd=tmp_path, capture_output=True).returncode
        for one in (line, instead)
    ]
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
    assert not weaknesses_of(
        ValidatorSpec(run=line, expect=Expectation(output="3 passed"))
    )
    assert not weaknesses_of(
        ValidatorSpec(run="! grep x f", expect=Expectation(exit_code=1))
    )
    assert not weaknesses_of(ValidatorSpec(python="checks:done"))
