"""Paths of test runners that do not exist: a mistake if tests are elsewhere, else what the work is to bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.validators.absent_paths import (
    TestTree,
    Unmatched,
    absent_paths,
    is_misspelling,
    mentions,
    names_folder,
    runs_all_tests,
)
from goalrunner.validators.absent_programs import Place


def _found(workspace: Path, line: str, *files: str, objective: str = "Do it.") -> tuple[Unmatched, ...]:
    for name in files:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("")
    return absent_paths(line, Place(workspace, workspace, {}), TestTree(workspace), objective)


@pytest.mark.parametrize(
    ("line", "files", "instead"),
    [
        ("pytest -q unit", ["tests/unit/test_a.py"], "tests/unit"),
        ("pytest test", ["tests/test_a.py"], "tests"),
        ("pytest tests/unt -x", ["tests/unit/test_a.py"], "tests/unit"),
        ("pytest tests/unti", ["tests/unit/test_a.py"], "tests/unit"),
        ("pytest tests/test_inflectoin.py", ["tests/test_inflection.py"], "tests/test_inflection.py"),
        ("cd tests && pytest test_parsr.py", ["tests/test_parser.py"], "test_parser.py"),
        ("pytest tests/test_a.py::test_b", ["tests/unit/test_a.py"], "tests/unit/test_a.py"),
        ("python -m pytest --tb=short test/", ["tests/test_a.py"], "tests"),
        ("cd app && pytest unit", ["app/tests/unit/test_a.py"], "tests/unit"),
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
    (found,) = _found(tmp_path, line, *files)
    assert (found.instead if found.mistake else "") == instead


@pytest.mark.parametrize(
    "objective", ["Make test_praser.py pass.", "Write the praser.", "Add tests of the parser."], ids=str
)
def test_a_test_file_that_the_goal_may_bring_is_no_mistake(tmp_path: Path, objective: str) -> None:
    (found,) = _found(tmp_path, "pytest tests/test_praser.py", "tests/test_parser.py", objective=objective)
    assert not found.mistake


@pytest.mark.parametrize(
    ("word", "name", "expected"),
    [
        ("unti", "unit", True),
        ("unot", "unit", True),
        ("uunit", "unit", True),
        ("tset", "tests", True),
        ("test_praser.py", "test_parser.py", True),
        ("statsu", "status", True),
        ("unit", "unit", False),
        ("unit", "units", False),
        ("api", "app", False),
        ("test_a", "test_b", False),
        ("part1", "part2", False),
        ("tinu", "unit", False),
        ("", "unit", False),
    ],
)
def test_one_edit_in_a_word_of_four_letters_is_a_misspelling(word: str, name: str, expected: bool) -> None:
    assert is_misspelling(word, name) is expected


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
    assert _found(tmp_path, line, "tests/unit/test_a.py") == ()


@pytest.mark.parametrize("objective", ["Add unit tests.", "Move tests/unit to unit/.", "Write unit/test_b.py"])
def test_a_path_that_the_objective_names_is_what_the_work_brings(tmp_path: Path, objective: str) -> None:
    (found,) = _found(tmp_path, "pytest unit", "tests/unit/test_a.py", objective=objective)
    assert found.instead == ""


def test_a_folder_of_sources_without_tests_is_named_with_the_one_that_has_them(tmp_path: Path) -> None:
    (found,) = _found(tmp_path, "pytest -q src", "src/a.py", "tests/test_a.py", objective="Fix src/a.py.")
    assert found == Unmatched("src", ": no test file in src", "tests", path="src")
    assert found.hint("pytest -q src") == 'did you mean tests? write "pytest -q tests"'


@pytest.mark.parametrize(
    ("line", "files", "objective"),
    [
        ("pytest --doctest-modules src", ["src/a.py", "tests/test_a.py"], "Fix it."),
        ("pytest src -k add", ["src/a.py", "tests/test_a.py"], "Fix it."),
        ("pytest src", ["src/a.py"], "Write tests."),
        ("pytest src", ["src/test_a.py", "tests/test_a.py"], "Fix it."),
        ("pytest tests/unit", ["tests/unit/README", "tests/other/test_a.py"], "Cover the parser."),
    ],
)
def test_a_folder_in_which_tests_may_be_found_or_written_is_no_mistake(
    tmp_path: Path, line: str, files: list[str], objective: str
) -> None:
    assert _found(tmp_path, line, *files, objective=objective) == ()


def test_tests_in_installed_packages_and_hidden_folders_do_not_count(tmp_path: Path) -> None:
    (found,) = _found(tmp_path, "pytest unit", ".venv/unit/test_a.py", "node_modules/unit/test_a.py")
    assert found.instead == ""


def test_a_call_without_paths_runs_all_tests() -> None:
    assert runs_all_tests("pytest -q")
    assert not runs_all_tests("pytest tests")
    assert not runs_all_tests("pytest --version")
    assert not runs_all_tests("make test")


def test_a_text_names_a_path_as_a_word() -> None:
    assert mentions("Add tests/unit.", "tests/unit")
    assert not mentions("Add units.", "unit")
    assert names_folder("Write tests in src/.", "src")
    assert not names_folder("Fix src/a.py", "src")
