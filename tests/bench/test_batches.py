"""What a batch costs beyond its runs: processor time, the scheduler, and memory."""

from __future__ import annotations

import os
import subprocess
import time
from itertools import count
from pathlib import Path

import psutil
import pytest

from goalrunner.checking.overlay import probe
from tests.bench.measuring import GOAL, Pairs, cpu_seconds, hold, pairs, run_process
from tests.support.workspaces import make_repository

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

GOALS = 4
"""Of the batch that is compared with single runs."""
AT_ONCE = 50
SECONDS = 10.0


def _goal(number: int, script: str) -> str:
    return f"""\
objective = "out{number} exists"
validator = "test -e out{number}"
[agent]
use = "command"
command = ["sh", "-c", "{script}; touch out{number}"]
"""


def _repository(root: Path, goals: int, script: str) -> Path:
    files = {
        f"g{number}.toml": _goal(number, script.format(number))
        for number in range(goals)
    }
    workspace = make_repository(root / "ws", files)
    if why := probe(workspace, root / "scratch"):
        pytest.skip(f"no overlay works here: {why}")
    return workspace


def test_a_goal_of_a_batch_against_a_run_of_its_own(tmp_path: Path) -> None:
    workspace = _repository(tmp_path, GOALS, "true")
    home = {"GOAL_HOME": str(tmp_path / "home")}
    numbers = count()

    def batch() -> None:
        name = f"b{next(numbers)}"
        command = [GOAL, "batch", ".", "--jobs", "2", "--name", name]
        run_process(command, cwd=workspace, env=home)

    def single_runs() -> None:
        for number in range(GOALS):
            command = [GOAL, "run", "--isolate", f"g{number}.toml"]
            run_process(command, cwd=workspace, env=home)

    hold(
        "a goal of a batch / a run of its own, and 100 ms",
        pairs(
            lambda: cpu_seconds(batch) / GOALS,
            lambda: cpu_seconds(single_runs) / GOALS + 0.1,
            5,
        ),
    )


def test_the_scheduler_and_the_memory_of_fifty_runs(tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"touch {tmp_path}/begun{{}}; until [ -e {go} ]; do sleep 1; done"
    workspace = _repository(tmp_path, AT_ONCE, wait)
    with subprocess.Popen(
        [GOAL, "batch", ".", "--jobs", str(AT_ONCE), "--cost", "100"],
        cwd=workspace,
        env={**os.environ, "GOAL_HOME": str(tmp_path / "home")},
        stdout=subprocess.DEVNULL,
    ) as process:
        while len(list(tmp_path.glob("begun*"))) < AT_ONCE:
            assert process.poll() is None
            time.sleep(0.2)
        scheduler = psutil.Process(process.pid)
        before = sum(scheduler.cpu_times()[:2])
        time.sleep(SECONDS)
        used = sum(scheduler.cpu_times()[:2]) - before
        runs = scheduler.children()
        memory = [run.memory_full_info().pss / 2**20 for run in runs]
        go.touch()
    assert process.returncode == 0
    assert len(memory) == AT_ONCE
    share = Pairs([100 * used / SECONDS], [2.0])
    hold("the scheduler of 50 runs at work / 2 % of a core", share, "%")
    limits = Pairs(memory, [40.0] * AT_ONCE)
    hold("memory of a run in a batch / 40 MiB", limits, "MiB")
