"""A program of the machine that is found elsewhere than at the start is named, with where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.errors import WorkspaceError
from goalrunner.model.goal import ValidatorSpec
from goalrunner.validators import Whereabouts

SPECS = (ValidatorSpec(name="check", run="accept --all"),)


class Machine:
    """A workspace, two folders of PATH outside of it, and the file that keeps the start."""

    def __init__(self, root: Path) -> None:
        self.workspace, self.first, self.second = (root / name for name in ("ws", "first", "second"))
        for folder in (self.workspace, self.first, self.second):
            folder.mkdir()
        self.record = root / "run" / "programs.json"
        self.put(self.second)

    def put(self, folder: Path) -> Path:
        path = folder / "accept"
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def look(self, path: str = "") -> Whereabouts:
        made = Whereabouts(
            SPECS, {"PATH": path or f"{self.workspace}:{self.first}:{self.second}"}, self.workspace, self.record
        )
        made.remember()
        return made


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def said(found: Whereabouts) -> list[str]:
    return [str(refusal) for refusal in found.elsewhere()]


def test_one_that_stays_where_it_is_is_nothing(machine: Machine) -> None:
    found = machine.look()
    machine.put(machine.workspace)
    machine.put(machine.second)
    assert said(found) == []


def test_one_that_is_found_before_it_is_named_with_both_places(machine: Machine) -> None:
    found = machine.look()
    planted = machine.put(machine.first)
    (line,) = said(found)
    assert line.startswith(f"{planted}: found in place of {machine.second}/accept, which checks were started by")
    planted.unlink()
    (machine.second / "accept").unlink()
    assert said(found)[0].startswith(f"the program accept: no longer {machine.second}/accept")


def test_one_that_was_missing_at_the_start_may_come(machine: Machine) -> None:
    (machine.second / "accept").unlink()
    found = machine.look()
    machine.put(machine.first)
    assert said(found) == []


def test_a_resumed_run_compares_with_its_own_start_unless_its_user_has_another_path(machine: Machine) -> None:
    machine.look()
    machine.put(machine.first)
    assert len(said(machine.look())) == 1
    assert said(machine.look(f"{machine.first}:{machine.second}")) == []


@pytest.mark.parametrize("damage", ["{", "[]", '{"%s": 1}'])
def test_a_start_that_cannot_be_read_any_more_is_refused(machine: Machine, damage: str) -> None:
    machine.look()
    machine.record.write_text(damage.replace("%s", f"{machine.workspace}:{machine.first}:{machine.second}"))
    with pytest.raises(WorkspaceError, match="is damaged"):
        machine.look()
