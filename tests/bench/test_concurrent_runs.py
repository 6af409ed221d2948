"""A hundred runs at once in one program: time, memory, and what is left behind."""

from __future__ import annotations

import asyncio
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from goalrunner import Goal, GoalOutcome, arun_goal
from goalrunner.testing import ScriptedConversation
from tests.bench.measuring import hold, pairs, remark

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

RUNS = 100


def says_yes(response: Any) -> bool:
    return "yes" in str(response)


async def run(folder: Path) -> GoalOutcome:
    folder.mkdir(parents=True)
    goal = Goal(objective="The answer is yes.", workspace={"path": str(folder)})
    return await arun_goal(
        ScriptedConversation("no", "yes"), goal, validators=[says_yes]
    )


def left() -> tuple[int, int]:
    """Threads and open files of this process."""
    return threading.active_count(), len(list(Path("/dev/fd").iterdir()))


def peak() -> float:
    """The peak of this process's memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        2**20 if sys.platform == "darwin" else 2**10
    )


def test_a_hundred_runs_at_once(tmp_path: Path) -> None:
    folders = (tmp_path / str(number) for number in range(10_000))

    def at_once() -> float:
        async def all_of_them() -> list[GoalOutcome]:
            return await asyncio.gather(*(run(next(folders)) for _ in range(RUNS)))

        began = time.perf_counter()
        outcomes = asyncio.run(all_of_them())
        assert [(outcome.status, outcome.iterations) for outcome in outcomes] == [
            ("complete", 2)
        ] * RUNS
        assert len({outcome.run_id for outcome in outcomes}) == RUNS
        return time.perf_counter() - began

    def one_after_the_other() -> float:
        began = time.perf_counter()
        for _ in range(RUNS):
            assert asyncio.run(run(next(folders))).passed
        return time.perf_counter() - began

    one_after_the_other()
    before, memory = left(), peak()
    at_once()
    more = peak() - memory
    remark(f"memory beyond that of one run, for {RUNS} at once", [more], "MiB")
    assert more < RUNS, "a run takes less than 1 MiB"
    assert left() == before
    hold(
        f"{RUNS} runs of a program at once / one after the other",
        pairs(at_once, one_after_the_other, 1),
    )
