"""Whether a round and its audit take as long late in a run as early, in a workspace that changes each round."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bench.measuring import GOAL, Pairs, hold, remark, run_process
from tests.bench.rounds import CAPPED, write_goal, write_replies

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

ROUNDS = 200

WINDOW = 10
"""Rounds that are measured: those up to round 40, when the prompt of an audit is full, and the last ones."""

EARLY = 40

LINES = 200
"""Of the notes, which each round's shell command prints."""

SHELL = "cat notes.txt; date +%s%N >> log.txt; date +%s%N > $(date +%N | tail -c 2).txt"
"""Change a file that each round changes, and one that some rounds change."""


def test_late_rounds_take_as_long_as_early_ones(tmp_path: Path, own_home: Path) -> None:
    goal = write_goal(
        tmp_path,
        ROUNDS,
        agent="scripted/r.jsonl",
        judge="scripted/r.jsonl",
        lines=LINES,
    )
    # An audit whose citation is refused asks twice.
    write_replies(tmp_path / "r.jsonl", 2 * ROUNDS, shell=SHELL)
    run_process([GOAL, "run", str(goal)], codes=(CAPPED,), cwd=tmp_path, timeout=500)
    audits, rounds = _seconds(next(own_home.glob("runs/*/events.jsonl")))
    remark(
        "an audit up to round 10, where its prompt still grows",
        [1000 * value for value in audits[:10]],
        "ms",
    )
    hold(f"an audit at round {ROUNDS} / at round {EARLY}", _windows(audits), "ms")
    hold(f"a round at round {ROUNDS} / at round {EARLY}", _windows(rounds), "ms")
    fifth, sixtieth = sorted(rounds[2:8]), sorted(rounds[54:60])
    hold(
        "a round at round 60 / at round 5",
        Pairs([1000 * x for x in sixtieth], [1000 * x for x in fifth]),
        "ms",
    )


def _windows(seconds: Sequence[float]) -> Pairs:
    """The last rounds and the early ones, each sorted: what disturbs the machine is not the same round in both."""
    early, late = seconds[EARLY - WINDOW : EARLY], seconds[ROUNDS - WINDOW : ROUNDS]
    return Pairs(
        [1000 * value for value in sorted(late)],
        [1000 * value for value in sorted(early)],
    )


def _seconds(log: Path) -> tuple[list[float], list[float]]:
    """How long each audit and each round took, by the log's own clock."""
    audits: list[float] = []
    rounds: list[float] = []
    began = audit = 0.0
    for line in log.read_text().splitlines():
        record = json.loads(line)
        kind, elapsed = record["event"]["type"], record["elapsed"]
        if kind == "round_started":
            began = elapsed
        elif kind == "audit_started":
            audit = elapsed
        elif kind == "verdict_recorded" and began:
            audits.append(elapsed - audit)
            rounds.append(elapsed - began)
    assert len(rounds) == ROUNDS
    return audits, rounds
