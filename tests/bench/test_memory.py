"""Whether memory stays flat in the number of rounds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bench.measuring import GOAL, hold, pairs, run_process
from tests.bench.rounds import CAPPED, write_goal, write_replies

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

FEW, MANY = 10, 100

LINES = 200
"""Of the notes, which each round's shell command prints."""

PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(peak if sys.platform == "darwin" else peak * 1024)
sys.exit(code)
"""
"""Runs a command and prints the peak of its resident memory in bytes. A small process: a child's peak counts its parent's."""


def test_memory_is_flat_in_the_number_of_rounds(tmp_path: Path) -> None:
    def peak(rounds: int) -> float:
        folder = tmp_path / str(rounds)
        goal = write_goal(
            folder,
            rounds,
            agent="scripted/replies.jsonl",
            judge="scripted/replies.jsonl",
            lines=LINES,
        )
        # Both recordings are of the same length: a recording is read whole, and is no part of what grows.
        write_replies(folder / "replies.jsonl", MANY)
        ended = run_process(
            [sys.executable, "-c", PEAK, GOAL, "run", str(goal)],
            codes=(CAPPED,),
            cwd=folder,
        )
        return float(ended.stdout) / 2**20

    hold(
        f"peak memory of {MANY} rounds / of {FEW}",
        pairs(lambda: peak(MANY), lambda: peak(FEW), 3),
        "MiB",
    )
