"""Whole batches of command agents."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from goalrunner.batches.batch_folder import BatchFolder, batch_names
from goalrunner.checking.overlay import probe
from goalrunner.records.run_folder import RunFolder
from tests.support.command_line import GOAL, Ended, environment
from tests.support.workspaces import git, make_repository

pytestmark = pytest.mark.slow


def goal_file(number: int, script: str = "touch out{}", more: str = "") -> str:
    return f"""\
objective = "out{number} exists"
validator = "test -e out{number}"
{more}
[agent]
use = "command"
command = ["sh", "-c", "{script.format(number)}"]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    files = {f"g{number}.toml": goal_file(number) for number in (1, 2, 3)}
    root = make_repository(tmp_path / "ws", files)
    if why := probe(root, tmp_path / "scratch"):
        pytest.skip(f"no overlay works here: {why}")
    return root


def goal(*arguments: str, cwd: Path, home: Path) -> Ended:
    done = subprocess.run(
        [*GOAL, *arguments],
        cwd=cwd,
        env=environment(GOAL_HOME=str(home)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def test_each_goal_runs_in_a_copy_to_its_end(workspace: Path, home: Path) -> None:
    ran = goal("batch", ".", "--jobs", "2", cwd=workspace, home=home)
    assert ran.code == 0, ran.err + ran.out
    assert git(workspace, "status", "--porcelain") == ""
    (name,) = batch_names(home)
    state = BatchFolder(home / "batches" / name).state()
    assert state.complete == 3
    for entry in state.entries.values():
        assert RunFolder(home / "runs" / entry.run_id).outcome.exists()
