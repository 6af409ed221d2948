"""What the line of a validator leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.core.goal_tables import ValidatorSpec
from goalrunner.validators.suites import script_text

FILES = {
    "Makefile": ".PHONY: check\nX = 1\nall: check\n\ncheck: unit\n\tmypy .\n\nunit:\n\tpytest -q\n\nwatch:\n\tpytest --lf\n",
    "package.json": '{"scripts": {"test": "npm run unit", "unit": "jest", "test:watch": "jest --onlyChanged"}}',
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["-q", "--testmon"]\n[tool.poe]\nwatch = "pytest --picked"\n',
    "check.sh": "make unit\n",
}


@pytest.mark.parametrize(
    ("line", "there", "not_there"),
    [
        ("make check", ("mypy .",), ("--lf",)),
        ("make", ("mypy .",), ("--lf",)),
        ("make watch", ("--lf",), ("mypy",)),
        ("sh check.sh", ("make unit", "pytest -q"), ("mypy", "--lf")),
        ("npm test", ("npm run unit", "jest"), ("--onlyChanged",)),
        ("npm run test:watch", ("--onlyChanged",), ("npm run unit",)),
        ("pytest -q", ("--testmon",), ("--picked", "mypy", "jest")),
    ],
)
def test_what_a_line_runs_is_found(
    tmp_path: Path, line: str, there: tuple[str, ...], not_there: tuple[str, ...]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    found = script_text(ValidatorSpec(run=line), tmp_path, tmp_path)
    assert [words for words in there if words not in found] == []
    assert [words for words in not_there if words in found] == []


@pytest.mark.parametrize("text", ["{", "[]", '{"scripts": 1}', "{}"])
def test_a_package_without_scripts_has_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "package.json").write_text(text)
    assert script_text(ValidatorSpec(run="npm test"), tmp_path, tmp_path) == "npm test"
