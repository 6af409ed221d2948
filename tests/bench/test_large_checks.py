"""What a check costs beside its validator in a large repository, in which the agent changed one file."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.bench.large import large_repository
from tests.bench.measuring import (
    GOAL,
    Pairs,
    hold,
    process_seconds,
    remark,
    run_process,
)

pytestmark = [pytest.mark.bench, pytest.mark.timeout(2400)]

RUNS = 4
"""The first one makes the store, and does not count."""


@pytest.mark.parametrize("files", [50_000, 200_000])
def test_a_check_follows_what_changed(
    tmp_path: Path, own_home: Path, files: int
) -> None:
    workspace = large_repository(tmp_path / "ws", files)
    goal = tmp_path / "goal.toml"
    goal.write_text(
        'objective = "Make ok() return True."\n'
        f'validator = "{sys.executable} suite.py"\n'
        'agent = { use = "command", command = "sed -i s/False/True/ ok.py" }\n'
    )
    baselines: list[float] = []
    checks: list[float] = []
    statuses: list[float] = []
    for _ in range(RUNS):
        (workspace / "ok.py").write_text("def ok():\n    return False\n")
        run_process(
            [GOAL, "run", str(goal), "--workspace", str(workspace)],
            cwd=workspace,
            timeout=900,
        )
        newest = max(
            own_home.glob("runs/*/events.jsonl"), key=lambda path: path.stat().st_mtime
        )
        baseline, check = _beyond(newest)
        baselines.append(baseline)
        checks.append(check)
        statuses.append(
            median(
                process_seconds(["git", "-C", str(workspace), "status"])
                for _ in range(3)
            )
        )
    shutil.rmtree(workspace)
    remark("the first baseline, which reads the list of all files", baselines[:1])
    remark("later baselines", baselines[1:])
    hold(
        f"a check of {files:,} files beyond its suite / git status",
        Pairs(checks[1:], statuses[1:]),
    )


def _beyond(log: Path) -> tuple[float, float]:
    """How long the baseline and the check of round 1 took, less their validators."""
    began = 0.0
    beyond = {}
    for line in log.read_text().splitlines():
        record = json.loads(line)
        event, elapsed = record["event"], record["elapsed"]
        if event["type"] == "step_started":
            began = elapsed
        elif event["type"] in ("baseline_taken", "validators_finished"):
            suites = sum(result["duration"] for result in event["results"])
            beyond[event["type"]] = elapsed - began - suites
    return beyond["baseline_taken"], beyond["validators_finished"]
