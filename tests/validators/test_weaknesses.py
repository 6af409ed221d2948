"""Traps that are named before a run."""

from __future__ import annotations

import pytest

from goalrunner.validators.weaknesses import weaknesses


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("pytest -q | tee log", ("the exit code of `pytest -q | tee log` is tee's",)),
        ("pytest || true", ("`pytest || true` passes whatever pytest finds",)),
        ("pytest; true", ("the exit code of `pytest; true` is not pytest's",)),
        ("ruff check .; pytest", ("the exit code of `ruff check .; pytest` is not ruff's",)),
        ("pytest &", ("`pytest &` does not wait for pytest",)),
        ("./check.sh || :", ("`./check.sh || :` passes whatever check.sh finds",)),
        ("sh -c 'pytest | cat'", ("the exit code of `pytest | cat` is cat's",)),
        ("npx jest --passWithNoTests", ("`--passWithNoTests` of jest passes when there is no test at all",)),
        ("make -i check", ("make -i passes whatever its commands find",)),
    ],
)
def test_a_trap_is_named(line: str, said: tuple[str, ...]) -> None:
    assert weaknesses(line) == said


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
    ],
)
def test_an_honest_line_has_none(line: str) -> None:
    assert weaknesses(line) == ()
