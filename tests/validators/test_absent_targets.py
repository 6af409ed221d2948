"""Tests, make targets and npm scripts that a line selects and that do not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.validators.absent_paths import TestTree, Unmatched
from goalrunner.validators.absent_programs import Place
from goalrunner.validators.absent_targets import absent_targets

TESTS = """
import pytest
class TestParser:
    def test_parse(self): ...
def test_names(): ...
@pytest.mark.parametrize("x", ["unicode"])
async def test_many(x): ...
"""
MAKEFILE = "lint: deps\n\truff check\ntests:\n\tpytest\ndeps:\n"
PACKAGE = '{"scripts": {"lint": "eslint .", "tests": "jest", "check:types": "tsc"}}'


def _found(workspace: Path, line: str, objective: str = "Do it.") -> tuple[Unmatched, ...]:
    (workspace / "tests").mkdir()
    (workspace / "tests/test_a.py").write_text(TESTS)
    (workspace / "Makefile").write_text(MAKEFILE)
    (workspace / "package.json").write_text(PACKAGE)
    return absent_targets(line, Place(workspace, workspace, {}), TestTree(workspace), objective)


@pytest.mark.parametrize(
    ("line", "what", "corrected"),
    [
        ("pytest -k test_nmaes", "no test matches -k test_nmaes", "pytest -k test_names"),
        ("pytest -q -k=test_pasre", "no test matches -k test_pasre", "pytest -q -k=test_parse"),
        (
            "python -m pytest tests/test_a.py::test_name",
            "tests/test_a.py has no test_name",
            "python -m pytest tests/test_a.py::test_names",
        ),
        (
            "cd tests && pytest test_a.py::TestParser::test_prase",
            "test_a.py has no test_prase",
            "cd tests && pytest test_a.py::TestParser::test_parse",
        ),
        ("make lnit", "Makefile has no target lnit", "make lint"),
        ("make lint test", "Makefile has no target test", "make lint tests"),
        ("npm test", 'package.json has no script "test"', "npm run tests"),
        ("npm run tset", 'package.json has no script "tset"', "npm run tests"),
        ("npm install && npm run lnt", 'package.json has no script "lnt"', "npm install && npm run lint"),
        ("pnpm run check:type", 'package.json has no script "check:type"', "pnpm run check:types"),
    ],
)
def test_a_name_that_is_almost_an_existing_one_is_a_mistake(
    tmp_path: Path, line: str, what: str, corrected: str
) -> None:
    (found,) = _found(tmp_path, line)
    assert (found.mistake, found.message) == (True, f": {what}")
    assert found.hint(line) == f'did you mean {found.instead}? write "{corrected}"'


@pytest.mark.parametrize(
    ("line", "objective", "instead"),
    [
        ("pytest -k test_streaming", "Do it.", ""),
        ("pytest -k test_nmaes", "Add a test for names.", "test_names"),
        ("pytest tests/test_a.py::test_name", "Make test_name pass.", "test_names"),
        ("pytest tests/test_a.py::test_empty", "Do it.", ""),
        ("make docs", "Do it.", ""),
        ("make lints", "Add a target lints.", "lint"),
        ("npm run build", "Do it.", ""),
    ],
)
def test_a_name_that_the_work_may_bring_is_no_mistake(tmp_path: Path, line: str, objective: str, instead: str) -> None:
    (found,) = _found(tmp_path, line, objective)
    assert (found.mistake, found.instead) == (False, instead)


@pytest.mark.parametrize(
    "line",
    [
        "pytest -k test_names",
        "pytest -k parser",
        "pytest -k UNICODE",
        "pytest -k many3",
        "pytest -k 'nmaes and not slow'",
        "pytest tests/test_a.py::test_many[x]",
        "pytest tests/test_a.py::TestParser",
        "pytest --collect-only -k nmaes",
        "pytest --doctest-modules -k nmaes",
        "make",
        "make lint",
        "make -C sub lnit",
        "make CC=gcc lnit",
        "make tests/test_a.py",
        "./configure && make lnit",
        "npm run lint -- --fix",
        "npm run lnt --if-present",
        "npm ci",
        "yarn lnt",
        "bun test",
    ],
)
def test_what_exists_or_is_not_known_is_passed_over(tmp_path: Path, line: str) -> None:
    assert _found(tmp_path, line) == ()


@pytest.mark.parametrize("more", ["%.o: %.c\n", "include more.mk\n", "$(NAMES):\n\ttrue\n", "lnit \\\ndocs: deps\n"])
def test_targets_of_a_makefile_that_makes_some_are_not_known(tmp_path: Path, more: str) -> None:
    (tmp_path / "Makefile").write_text(MAKEFILE + more)
    assert absent_targets("make lnit", Place(tmp_path, tmp_path, {}), TestTree(tmp_path), "") == ()


def test_a_workspace_without_a_makefile_has_no_target(tmp_path: Path) -> None:
    (found,) = absent_targets("make test", Place(tmp_path, tmp_path, {}), TestTree(tmp_path), "")
    assert found == Unmatched("test", ": there is no Makefile with a target test")


def test_a_workspace_without_a_package_json_has_no_script(tmp_path: Path) -> None:
    (found,) = absent_targets("npm test", Place(tmp_path, tmp_path, {}), TestTree(tmp_path), "")
    assert found == Unmatched("test", ': there is no package.json with a script "test"')


@pytest.mark.parametrize("more", ["class TestB(Base):\n    x = 1\n", "from base import *\n", "setattr(x, y, z)\n"])
@pytest.mark.parametrize("line", ["pytest -k test_nmaes", "pytest tests/test_b.py::test_name"])
def test_tests_that_come_from_elsewhere_are_not_known(tmp_path: Path, more: str, line: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_b.py").write_text(f"{more}def test_names(): ...\n")
    assert absent_targets(line, Place(tmp_path, tmp_path, {}), TestTree(tmp_path), "") == ()


def test_a_test_case_of_unittest_has_the_tests_that_its_file_names(tmp_path: Path) -> None:
    (tmp_path / "test_b.py").write_text("class B(unittest.TestCase):\n    def test_names(self): ...\n")
    (found,) = absent_targets("pytest test_b.py::B::test_name", Place(tmp_path, tmp_path, {}), TestTree(tmp_path), "")
    assert found.instead == "test_names"


def test_test_files_with_names_of_their_own_are_not_known(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = check_*.py\n")
    assert _found(tmp_path, "pytest -k nmaes") == ()
