"""Programs and tools that a validator's own line needs and the machine lacks, found without running the line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from goalrunner.validators.absent_programs import Absent, Place, absent_program, misspelled, similar_program


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A machine that has pytest, git, env, timeout, sh, uv, ruff and a Python without tools."""
    programs, workspace = tmp_path / "bin", tmp_path / "ws"
    programs.mkdir()
    workspace.mkdir()
    for name in ("pytest", "git", "env", "timeout", "sh", "uv", "ruff", "pip"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    (programs / "python3").chmod(0o755)
    return Place(workspace, workspace, {"PATH": str(programs)})


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("pytset -q", "pytset"),
        ("env A=1 timeout 5 pytset", "pytset"),
        ("cd sub && pytset", "pytset"),
        ("ruff check . && mypyy src", "mypyy"),
        ("pytest -q && nothere", "nothere"),
        ("! nothere x", "nothere"),
        ("sh -c 'pytset -q'", "pytset"),
        ("pytset | tee log", "pytset"),
        ("/no/such/program -q", "/no/such/program"),
        ("../tool", "../tool"),
        ("nosuchpython -m pytest", "nosuchpython"),
        # These can be there when the line runs, or need not be.
        ("pytest -q", ""),
        ("./check.sh", ""),
        ("bin/tool", ""),
        ("sh check.sh", ""),
        ("pip install -e . && mytool --version", ""),
        (". ./env.sh; mytool", ""),
        ("export PATH=$PWD/bin:$PATH && mytool", ""),
        ("PATH=bin mytool", ""),
        ("mytool || true", ""),
        ("pytest || python3 -m nox", ""),
        ("if true; then mytool; fi", ""),
        ("command -v mytool", ""),
        ("uv run pytset", ""),
        ("$TOOL -q", ""),
        ("check() { true; }; check", ""),
        ("test -e a && [ -e b ] && echo ok", ""),
        ("python3 -m mytool", ""),
        ("python3 -m pytset", ""),
        ("python3 -m nox", ""),
        ("python3 -m json.tool a.json", ""),
        ("uv run python3 -m nox", ""),
        ("echo 'unclosed", ""),
    ],
)
def test_what_a_line_certainly_needs_is_looked_for(place: Place, line: str, word: str) -> None:
    found = absent_program(line, place)
    assert (found.word if found else "") == word


def test_the_program_that_may_be_meant_is_named(place: Place) -> None:
    found = absent_program('pytset -q -k "a b"', place)
    assert found == Absent("pytset", " cannot run here: pytset: not found", "did you mean pytest?")


def test_a_program_of_the_workspaces_own_environment_is_meant_first(place: Place) -> None:
    local = place.workspace / ".venv" / "bin"
    local.mkdir(parents=True)
    (local / "mypy").write_text("")
    (local / "mypy").chmod(0o755)
    assert similar_program("mypy", place) == ".venv/bin/mypy"


def test_a_program_can_be_put_into_a_folder_of_the_workspace_on_path(place: Place) -> None:
    own = Place(place.workspace, place.workspace, {"PATH": f"{place.env['PATH']}:{place.workspace / 'bin'}"})
    assert absent_program("mytool --check", own) is None
    assert absent_program("pytset --check", own) is not None


def test_a_script_that_is_not_executable_is_found(place: Place) -> None:
    script = place.workspace / "check.sh"
    script.write_text("#!/bin/sh\n")
    found = absent_program("cd . && ./check.sh", place)
    assert found is not None
    assert (found.word, found.path, found.hint) == ("./check.sh", "check.sh", "chmod +x ./check.sh")
    assert absent_program("sh check.sh", place) is None
    assert absent_program("./other.sh", place) is None
    script.chmod(0o755)
    assert absent_program("./check.sh", place) is None


@pytest.mark.parametrize(
    ("word", "name", "expected"),
    [
        ("unti", "unit", True),
        ("unot", "unit", True),
        ("uunit", "unit", True),
        ("tests", "tset", False),
        ("tset", "test", True),
        ("test_praser.py", "test_parser.py", True),
        ("statsu", "status", True),
        ("unit", "units", True),
        ("api", "app", False),
        ("test_a", "test_b", False),
        ("part1", "part2", False),
        ("tinu", "unit", False),
        ("", "unit", False),
    ],
)
def test_one_edit_in_a_word_of_four_letters_is_a_misspelling(word: str, name: str, expected: bool) -> None:
    assert bool(misspelled(word, [name])) is expected
