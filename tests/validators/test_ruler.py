"""What the checks are made of is found once, and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.errors import WorkspaceError
from goalrunner.model.goal import ValidatorSpec
from goalrunner.validators import ruler_at_start

SECRET = "sk-ant-api03-0123456789abcdef"
SPECS = (
    ValidatorSpec(name=f"./check.sh --key {SECRET}", run=f"./check.sh --key {SECRET}"),
    ValidatorSpec(run="python -m m"),
)
WHY = {"check.sh": f'named by validator "{SPECS[0].name}"', "m.py": f'named by validator "{SPECS[1].name}"'}


def test_a_later_look_finds_what_the_first_one_found(tmp_path: Path) -> None:
    workspace, record = tmp_path / "ws", tmp_path / "start" / "ruler.json"
    workspace.mkdir()
    for name in ("check.sh", "m.py"):
        (workspace / name).write_text("#!/bin/sh\n")
        (workspace / name).chmod(0o755)
    first = ruler_at_start(SPECS, {}, workspace, record)
    assert (first.scripts, list(first.programs), sorted(first.roots)) == (WHY, ["check.sh"], [""])
    for name in ("check.sh", "m.py"):
        (workspace / name).unlink()
    assert ruler_at_start(SPECS, {}, workspace, record) == first
    assert SECRET not in record.read_text()


@pytest.mark.parametrize("damage", ["", "{", "[]", "7", '[{"scripts": []}, {}]', "[1, 2]"])
def test_a_record_that_cannot_be_read_is_refused(tmp_path: Path, damage: str) -> None:
    record = tmp_path / "ruler.json"
    record.write_text(damage)
    with pytest.raises(WorkspaceError, match="is damaged"):
        ruler_at_start(SPECS, {}, tmp_path, record)
