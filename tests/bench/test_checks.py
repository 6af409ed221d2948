"""What a run costs beside its validators: `goal run` and the bare suite, side by side."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

GOAL = """\
objective = "Make ok() return True."
validator = "{python} suite.py"
agent = {{ use = "command", command = "sed -i s/False/True/ ok.py" }}
{workspace}
"""
SUITE = "import time\nfrom ok import ok\n\ntime.sleep({seconds})\nassert ok()\n"


def _workspace(
    folder: Path, seconds: float, ignored: int = 0, *, data: bool = False
) -> Path:
    """Make a workspace with ignored files; with `data`, none of them is of a package or build output."""
    folder.mkdir()
    (folder / "ok.py").write_text("def ok():\n    return False\n")
    (folder / "suite.py").write_text(SUITE.format(seconds=seconds))
    (folder / ".gitignore").write_text(
        "data/\n__pycache__/\n.venv/\nnode_modules/\ntarget/\n"
    )
    for number in range(ignored):
        part = folder / (f"data/{number // 100}" if data else _part(number))
        part.mkdir(parents=True, exist_ok=True)
        with (part / f"{number}.bin").open("wb") as file:
            file.truncate(20_000)
    if ignored and not data:
        (folder / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
        (folder / "package.json").write_text("{}")
    for command in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def _part(number: int) -> str:
    """Half of the ignored files are packages of Node, the others packages of Python, build output and data."""
    group = number // 100
    kinds = (
        f"node_modules/p{group}",
        f".venv/lib/python3.11/site-packages/p{group}",
        f"target/{group}",
        f"data/{group}",
    )
    return kinds[(0, 0, 0, 0, 0, 1, 1, 2, 2, 3)[group % 10]]


def _bare(folder: Path) -> float:
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "suite.py"], cwd=folder, capture_output=True, check=False
    )
    return time.monotonic() - began


def _run(folder: Path, workspace: str = "") -> float:
    goal = folder.parent / f"{folder.name}.toml"
    goal.write_text(GOAL.format(python=sys.executable, workspace=workspace))
    began = time.monotonic()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "goalrunner",
            "run",
            str(goal),
            "--workspace",
            str(folder),
        ],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return time.monotonic() - began


@pytest.mark.parametrize("seconds", [0.3, 5.0, 60.0])
def test_a_run_takes_two_suites_and_little_more(tmp_path: Path, seconds: float) -> None:
    folder = _workspace(tmp_path / "ws", seconds)
    bare = _bare(folder)
    run = _run(folder)
    print(
        f"\nsuite {bare:.2f} s, goal run {run:.2f} s: {run / bare:.2f} suites, {run - 2 * bare:.2f} s beyond two (bound 1)"
    )
    assert run - 2 * bare < 1.0


@pytest.mark.parametrize(
    ("workspace", "data"),
    [("", False), ('[workspace]\neditable = ["ok.py"]', False), ("", True)],
    ids=["default", "editable", "default-data"],
)
def test_a_large_workspace_costs_little_more(
    tmp_path: Path, workspace: str, data: bool
) -> None:
    folder = _workspace(tmp_path / "ws", 0.3, ignored=100_000, data=data)
    bare = _bare(folder)
    _run(folder, workspace)  # the caches are warm afterwards
    subprocess.run(["git", "checkout", "-q", "."], cwd=folder, check=True)
    run = _run(folder, workspace)
    print(
        f"\n100,000 ignored files, 2 GB: suite {bare:.2f} s, goal run {run:.2f} s, {run - 2 * bare:.2f} s beyond (bound 3)"
    )
    assert run - 2 * bare < 3.0
