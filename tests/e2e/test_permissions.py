"""Folders and files that may not be entered or read: one line, exit 2, no crash. In a process without root's powers."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import GOAL, Ended, environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" and os.geteuid() == 0, reason="root may do anything"
)

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2


def _without_powers() -> None:
    if os.geteuid() == 0:
        library = ctypes.CDLL(None)
        for power in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            library.prctl(_PR_CAPBSET_DROP, power, 0, 0, 0)


def goal(*arguments: str, cwd: Path, **env: str) -> Ended:
    """`goal` as a user for whom the modes of files apply."""
    done = subprocess.run(
        [*GOAL, *arguments],
        cwd=cwd,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=_without_powers,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "locked").mkdir(mode=0)
    (tmp_path / "goal.toml").write_text(
        'objective = "x"\nmodel = "scripted/r.jsonl"\nvalidator = "true"\n'
    )
    (tmp_path / "r.jsonl").write_text('{"text": "done"}\n')
    return tmp_path


@pytest.mark.parametrize("command", ["list", "status", "show", "status k3f9"])
def test_a_home_that_may_not_be_read(place: Path, command: str) -> None:
    home = place / "locked"
    assert goal(*command.split(), cwd=place, GOAL_HOME=str(home)) == Ended(
        2,
        "",
        f"Error: {home}/runs cannot be read: permission denied\nset GOAL_HOME to the folder that holds the runs\n",
    )


def test_a_run_in_a_home_that_may_not_be_entered(place: Path) -> None:
    (place / "ws").mkdir()
    ended = goal(
        "run",
        "goal.toml",
        "--workspace",
        "ws",
        cwd=place,
        GOAL_HOME=str(place / "locked"),
    )
    assert (ended.code, ended.err.splitlines()[1:]) == (
        2,
        ["set GOAL_HOME to a folder that can be written"],
    ), ended


def test_a_workspace_that_may_not_be_entered(place: Path) -> None:
    ended = goal("run", "goal.toml", "--workspace", "locked", cwd=place)
    assert ended == Ended(
        2,
        "",
        f'Error: --workspace "{place}/locked" cannot be entered or read: permission denied\n',
    )


def test_a_goal_file_that_may_not_be_read(place: Path) -> None:
    (place / "goal.toml").chmod(0)
    assert goal("run", "goal.toml", cwd=place) == Ended(
        2, "", "Error: goal.toml  cannot be read: permission denied\n"
    )


def test_a_copy_in_a_folder_that_may_not_be_entered(place: Path) -> None:
    ended = goal("run", "goal.toml", "--output", "locked/out.json", cwd=place)
    assert ended == Ended(
        2,
        "",
        "Error: --output locked/out.json: permission denied\nchoose another path\n",
    )


def test_a_transcript_that_may_not_be_read(place: Path) -> None:
    assert goal("status", "locked/chat.json", cwd=place).code == 2
    assert (
        goal(
            "status",
            "locked/chat.json",
            "--objective",
            "x",
            "--judge",
            "a/b",
            cwd=place,
        ).code
        == 2
    )
