"""How often the validators of a run are started after a round, and what the run ends with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from goalrunner.testing import ScriptedApprover
from tests.support.arena import Arena
from tests.support.recordings import shell, write_file

_WRONG, _RIGHT = (
    "def add(a, b):\n    return a - b\n",
    "def add(a, b):\n    return a + b\n",
)
_CHECK = """#!/bin/sh
echo run >> "$COUNT"
for name in tests/*.txt; do
    grep -q "$(cat "$name")" src/calc.py || exit 1
done
test ! -e conf || read -r line < "$(cat conf)"
"""
"""Each file of tests/ holds a pattern that the source must match; the file that `conf` names is needed."""
_FILES: Mapping[str, str] = {
    "src/calc.py": _WRONG,
    "tests/add.txt": "a [+] b",
    "run.sh": _CHECK,
}
_FIX = write_file("src/calc.py", _RIGHT)


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    return Arena(tmp_path)


def goal(tmp_path: Path, **workspace: Any) -> dict[str, Any]:
    """Return a goal whose validator writes a line for each of its runs into the file `count`, outside of the workspace."""
    validator = {
        "name": "check",
        "run": "./run.sh",
        "env": {"COUNT": str(tmp_path / "count")},
    }
    return {
        "validators": [validator],
        "workspace": workspace,
        "objective": "Correct the sum.",
    }


def runs(tmp_path: Path) -> int:
    """Return how often the validator ran after the baseline."""
    return len((tmp_path / "count").read_text().splitlines()) - 1


async def test_a_change_of_source_is_checked_once(arena: Arena, tmp_path: Path) -> None:
    arena.write(_FILES)
    ending = await arena.fight((_FIX,), **goal(tmp_path))
    assert (ending.how, ending.outcome.labels) == (("complete", "satisfied", 1), ())
    assert runs(tmp_path) == 1


async def test_what_was_delivered_is_red_after_one_run(
    arena: Arena, tmp_path: Path
) -> None:
    arena.write(_FILES)
    ending = await arena.fight(
        (_FIX, write_file("tests/more.txt", "sub")), **goal(tmp_path)
    )
    assert ending.how == ("capped", "max_iterations", 1)
    assert runs(tmp_path) == 1
    assert "original content" not in ending.told()


async def test_new_tests_and_data_are_checked_twice(
    arena: Arena, tmp_path: Path
) -> None:
    arena.write(_FILES)
    work = (
        _FIX,
        write_file("tests/more.txt", "return"),
        write_file("notes.csv", "1\n"),
    )
    ending = await arena.fight(work, **goal(tmp_path))
    assert (ending.how, ending.outcome.labels) == (("complete", "satisfied", 1), ())
    assert runs(tmp_path) == 2


async def test_data_that_the_result_needs_is_a_third_run_and_a_label(
    arena: Arena, tmp_path: Path
) -> None:
    arena.write({**_FILES, "conf": "data\n"})
    ending = await arena.fight((_FIX, write_file("data", "1\n")), **goal(tmp_path))
    assert (ending.how, ending.outcome.labels) == (
        ("complete", "satisfied", 1),
        ("rests on changed files: data",),
    )
    assert runs(tmp_path) == 3


async def test_a_changed_test_that_the_result_needs_waits_for_a_person(
    arena: Arena, tmp_path: Path
) -> None:
    arena.write(_FILES)
    ending = await arena.fight(
        (shell("echo 'a - b' > tests/add.txt"),), **goal(tmp_path)
    )
    assert ending.how == ("blocked", "approval_required", 1)
    assert 'allow = ["tests/add.txt"]' in ending.outcome.message
    # As delivered, with the originals, and for the person on the original source.
    assert runs(tmp_path) == 3


async def test_a_person_accepts_what_was_delivered(
    arena: Arena, tmp_path: Path
) -> None:
    arena.write(_FILES)
    approver = ScriptedApprover(True)
    ending = await arena.fight(
        (shell("echo 'a - b' > tests/add.txt"),), approver=approver, **goal(tmp_path)
    )
    assert (ending.how, ending.outcome.labels) == (
        ("complete", "satisfied", 1),
        ("checks changed: tests/add.txt",),
    )
    assert "-a [+] b" in approver.requests[0].preview


async def test_protected_files_are_restored_by_the_agent(
    arena: Arena, tmp_path: Path
) -> None:
    arena.write(_FILES)
    weaker, restored = (
        shell("echo 'a - b' > tests/add.txt"),
        write_file("tests/add.txt", "a [+] b"),
    )
    ending = await arena.fight(
        (weaker,), (_FIX, restored), **goal(tmp_path, protect=["tests/**"])
    )
    assert (ending.how, ending.outcome.labels) == (("complete", "satisfied", 2), ())
    assert runs(tmp_path) == 2 + 1
    assert (
        "not with the original content of the files that this goal protects; restore it"
        in ending.told()
    )
    assert "tests/add.txt (changed; protect" in ending.told()


async def test_hidden_validators_never_run_with_changed_checks(
    arena: Arena, tmp_path: Path
) -> None:
    arena.write(_FILES)
    count = tmp_path / "hidden"
    hidden = {
        "name": "hidden",
        "run": f"cat tests/*.txt >> {count}; true",
        "hidden": True,
    }
    keys = goal(tmp_path)
    keys["validators"].append(hidden)
    ending = await arena.fight((_FIX, shell("echo 'a [+]' > tests/add.txt")), **keys)
    assert ending.how == ("complete", "satisfied", 1)
    assert set(count.read_text().split("\n")) <= {"a [+] b", ""}
