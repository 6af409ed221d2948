"""Paths, tests, make targets and npm scripts that a line names and that do not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.validators.absent_programs import Absent, Place
from goalrunner.validators.absent_targets import TestTree, absent_targets, folder_without_tests, mentions

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


def _found(workspace: Path, line: str, objective: str = "Do it.") -> tuple[Absent, ...]:
    (workspace / "tests").mkdir()
    (workspace / "tests/test_a.py").write_text(TESTS)
    (workspace / "Makefile").write_text(MAKEFILE)
    (workspace / "package.json").write_text(PACKAGE)
    return absent_targets(line, Place(workspace, workspace, {}), TestTree(workspace), objective)


@pytest.mark.parametrize(
    ("line", "what", "instead"),
    [
        ("python -m pytest tests/test_a.py::test_name", "tests/test_a.py has no test_name", "test_names"),
        (
            "cd tests && pytest test_a.py::TestParser::test_prase",
            "test_a.py has no test_prase",
            "test_parse",
        ),
        ("make lnit", "Makefile has no target lnit", "lint"),
        ("make lint test", "Makefile has no target test", "tests"),
        ("npm test", 'package.json has no script "test"', "tests"),
        ("npm run tets", 'package.json has no script "tets"', "tests"),
        ("npm install && npm run lnt", 'package.json has no script "lnt"', "lint"),
        ("pnpm run check:type", 'package.json has no script "check:type"', "check:types"),
    ],
)
def test_a_name_that_is_almost_an_existing_one_is_a_mistake(tmp_path: Path, line: str, what: str, instead: str) -> None:
    (found,) = _found(tmp_path, line)
    assert (found.mistake, found.message, found.hint) == (True, f": {what}", f"did you mean {instead}?")


@pytest.mark.parametrize(
    ("line", "objective", "instead"),
    [
        ("pytest tests/test_a.py::test_nmaes", "Add a test for names.", "test_names"),
        ("pytest tests/test_a.py::test_name", "Make test_name pass.", "test_names"),
        ("pytest tests/test_a.py::test_empty", "Do it.", ""),
        ("make docs", "Do it.", ""),
        ("make lints", "Add a target lints.", "lint"),
        ("npm run build", "Do it.", ""),
    ],
)
def test_a_name_that_the_work_may_bring_is_no_mistake(tmp_path: Path, line: str, objective: str, instead: str) -> None:
    (found,) = _found(tmp_path, line, objective)
    assert (found.mistake, found.hint) == (False, instead and f"did you mean {instead}?")


@pytest.mark.parametrize(
    "line",
    [
        "pytest -k nmaes",
        "pytest tests/test_a.py::test_many[x]",
        "pytest tests/test_a.py::TestParser",
        "pytest --collect-only -k nmaes",
        "make",
        "make lint",
        "make -C sub lnit",
        "make CC=gcc lnit",
        "make tests/test_a.py",
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
    assert found == Absent("test", ": there is no Makefile with a target test", mistake=False)


def test_a_workspace_without_a_package_json_has_no_script(tmp_path: Path) -> None:
    (found,) = absent_targets("npm test", Place(tmp_path, tmp_path, {}), TestTree(tmp_path), "")
    assert found == Absent("test", ': there is no package.json with a script "test"', mistake=False)


@pytest.mark.parametrize("more", ["class TestB(Base):\n    x = 1\n", "from base import *\n", "setattr(x, y, z)\n"])
def test_tests_that_come_from_elsewhere_are_not_known(tmp_path: Path, more: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_b.py").write_text(f"{more}def test_names(): ...\n")
    line = "pytest tests/test_b.py::test_name"
    assert absent_targets(line, Place(tmp_path, tmp_path, {}), TestTree(tmp_path), "") == ()


def test_a_test_case_of_unittest_has_the_tests_that_its_file_names(tmp_path: Path) -> None:
    (tmp_path / "test_b.py").write_text("class B(unittest.TestCase):\n    def test_names(self): ...\n")
    (found,) = absent_targets("pytest test_b.py::B::test_name", Place(tmp_path, tmp_path, {}), TestTree(tmp_path), "")
    assert found.hint == "did you mean test_names?"


def _absent_paths(workspace: Path, line: str, *files: str, objective: str = "Do it.") -> tuple[Absent, ...]:
    for name in files:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("")
    found = absent_targets(line, Place(workspace, workspace, {}), TestTree(workspace), objective)
    return tuple(item for item in found if item.path and not item.is_start)


@pytest.mark.parametrize(
    ("line", "files", "instead"),
    [
        ("pytest -q unit", ["tests/unit/test_a.py"], "tests/unit"),
        ("pytest test", ["tests/test_a.py"], "tests"),
        ("pytest tests/unt -x", ["tests/unit/test_a.py"], "tests/unit"),
        ("pytest tests/unti", ["tests/unit/test_a.py"], "tests/unit"),
        ("pytest tests/test_inflectoin.py", ["tests/test_inflection.py"], "tests/test_inflection.py"),
        ("cd tests && pytest test_parsr.py", ["tests/test_parser.py"], "tests/test_parser.py"),
        ("pytest tests/test_a.py::test_b", ["tests/unit/test_a.py"], "tests/unit/test_a.py"),
        ("python -m pytest --tb=short test/", ["tests/test_a.py"], "tests"),
        ("cd app && pytest unit", ["app/tests/unit/test_a.py"], "app/tests/unit"),
        ("python -m unittest discover -s test", ["tests/test_a.py"], "tests"),
        ("go test ./servr/...", ["server/a_test.go"], "server"),
        # Writing these may be the goal.
        ("pytest tests/test_new.py", ["tests/test_old.py"], ""),
        ("pytest tests/test_calcs.py", ["tests/test_calc.py"], ""),
        ("pytest tests/test_api_v2.py", ["tests/test_api_v1.py"], ""),
        ("pytest tests/test_store_users.py", ["tests/test_store_orders.py"], ""),
        ("pytest integration", ["tests/test_a.py"], ""),
        ("pytest tests/v2", ["tests/v1/test_a.py"], ""),
        ("pytest tests/api", ["tests/app/test_a.py"], ""),
        ("pytest tests", [], ""),
        ("pytest tests/test_a.py", ["a/test_a.py", "b/test_a.py"], ""),
    ],
)
def test_a_missing_path_is_a_mistake_if_a_similar_one_has_tests(
    tmp_path: Path, line: str, files: list[str], instead: str
) -> None:
    (found,) = _absent_paths(tmp_path, line, *files)
    assert (found.hint if found.mistake else "") == (instead and f"did you mean {instead}?")


@pytest.mark.parametrize(
    "objective", ["Make test_praser.py pass.", "Write the praser.", "Add tests of the parser."], ids=str
)
def test_a_test_file_that_the_goal_may_bring_is_no_mistake(tmp_path: Path, objective: str) -> None:
    (found,) = _absent_paths(tmp_path, "pytest tests/test_praser.py", "tests/test_parser.py", objective=objective)
    assert not found.mistake


@pytest.mark.parametrize(
    "line",
    [
        "pytest -q",
        "pytest tests",
        "pytest -k unit",
        "pytest -m unit tests",
        "pytest --cov unit",
        "pytest -c unit",
        "pytest $DIR",
        "pytest 'te*'",
        "pytest --collect-only unit",
        "jest unit",
        "./run.sh unit",
        "go test ./...",
    ],
)
def test_what_is_no_path_or_exists_is_passed_over(tmp_path: Path, line: str) -> None:
    assert _absent_paths(tmp_path, line, "tests/unit/test_a.py") == ()


@pytest.mark.parametrize("objective", ["Add unit tests.", "Move tests/unit to unit/.", "Write unit/test_b.py"])
def test_a_path_that_the_objective_names_is_what_the_work_brings(tmp_path: Path, objective: str) -> None:
    (found,) = _absent_paths(tmp_path, "pytest unit", "tests/unit/test_a.py", objective=objective)
    assert not found.mistake


def _without_tests(workspace: Path, line: str, objective: str, *files: str) -> str:
    for name in files:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("")
    return folder_without_tests(line, Place(workspace, workspace, {}), TestTree(workspace), objective)


def test_a_folder_of_sources_without_tests_is_named_with_the_one_that_has_them(tmp_path: Path) -> None:
    found = _without_tests(tmp_path, "pytest -q src", "Fix src/a.py.", "src/a.py", "tests/test_a.py")
    assert found == "no tests collected in src; did you mean tests?"


@pytest.mark.parametrize(
    ("line", "files", "objective"),
    [
        ("pytest src", ["src/a.py", "tests/test_a.py"], "Write tests of src."),
        ("pytest src", ["src/a.py"], "Fix it."),
        ("pytest src", ["src/test_a.py", "tests/test_a.py"], "Fix it."),
        ("pytest tests/unit", ["tests/unit/README", "tests/other/test_a.py"], "Cover the parser."),
    ],
)
def test_a_folder_in_which_tests_may_be_written_is_no_mistake(
    tmp_path: Path, line: str, files: list[str], objective: str
) -> None:
    assert _without_tests(tmp_path, line, objective, *files) == ""


def test_tests_in_installed_packages_and_hidden_folders_do_not_count(tmp_path: Path) -> None:
    (found,) = _absent_paths(tmp_path, "pytest unit", ".venv/unit/test_a.py", "node_modules/unit/test_a.py")
    assert not found.mistake


@pytest.mark.parametrize("line", ["pytest -q", "pytest tests", "pytest --version", "make test"])
def test_a_call_without_paths_needs_some_test_file(tmp_path: Path, line: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "Makefile").write_text("test:\n")
    found = [item.message for item in absent_targets(line, Place(tmp_path, tmp_path, {}), TestTree(tmp_path), "")]
    assert any("no test file" in message for message in found) is (line == "pytest -q")


def test_a_text_names_a_path_as_a_word() -> None:
    assert mentions("Add tests/unit.", "tests/unit")
    assert not mentions("Add units.", "unit")
