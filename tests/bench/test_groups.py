"""How long several runs of one goal take at once, against the slowest of them alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.checking.overlay import probe
from tests.bench.measuring import GOAL, hold, pairs, process_seconds
from tests.support.command_line import environment
from tests.support.workspaces import make_repository

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

_SECONDS = (20, 18, 16)


def test_the_best_of_three_takes_about_as_long_as_the_slowest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ['objective = "done exists"', 'validator = "test -e done"']
    for seconds in _SECONDS:
        # No processor time: the agent waits for an answer of its model.
        script = f"sleep {seconds}; touch done"
        lines += [f"[agents.waits{seconds}]", f'argv = ["sh", "-c", "{script}"]']
    files = {"goal.toml": "\n".join(lines)}
    workspace = make_repository(tmp_path / "ws", files)
    if why := probe(workspace, tmp_path / "scratch"):
        pytest.skip(f"no overlay works here: {why}")
    monkeypatch.chdir(workspace)
    env = environment(GOAL_HOME=str(tmp_path / "home"))
    agents = [f"--agent=waits{seconds}" for seconds in _SECONDS]

    def group() -> float:
        return process_seconds([GOAL, "run", "--all", *agents], env=env)

    def slowest() -> float:
        return process_seconds([GOAL, "run", "--isolate", agents[0]], env=env)

    hold(
        "the best of three agents that wait on models / the slowest of them alone",
        pairs(group, slowest, 2),
    )
