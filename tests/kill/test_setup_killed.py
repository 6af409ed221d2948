"""A runner that is killed while `setup` runs leaves no process, and the next run installs again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from goalrunner.system import processes
from tests.support.setups import Project, run

ROOT = Path(__file__).parents[2]
SCRIPT = """
import asyncio, sys
from pathlib import Path
from tests.support.setups import Project

async def main():
    project = Project(Path(sys.argv[1]))
    async with project.overlay(sys.argv[2]).open(project.layer()):
        pass

asyncio.run(main())
"""


async def test_a_runner_that_is_killed_during_setup(root: Path) -> None:
    nap = f"4712{os.getpid():07}"
    setup = f"touch made; [ -e {root}/second ] || sleep {nap}"
    runner = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, root, setup],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        },
    )
    while not any(
        f"sleep\0{nap}" in line or f"sleep {nap}" == line
        for _, line in processes.command_lines()
    ):
        assert runner.poll() is None
        time.sleep(0.01)
    runner.kill()
    runner.wait()
    deadline = time.monotonic() + 60
    while left := [line for _, line in processes.command_lines() if nap in line]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)

    (root / "second").touch()
    project = Project(root)
    async with project.overlay(setup).open(project.layer()) as opened:
        assert await run(opened, project, "ls made") == (0, "made\n")
    project.store.close()
