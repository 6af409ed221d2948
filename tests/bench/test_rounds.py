"""What a round costs beside what it cannot do without: its commands and its calls of the models."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from tests.bench.measuring import GOAL, Pairs, hold, remark, run_process
from tests.bench.rounds import CAPPED, SHELL, VALIDATOR, endless_server, write_goal
from tests.support.model_server import Seen

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

SKIPPED, MEASURED = 2, 20
"""Rounds of a run: the first ones warm it up, and are what a short run would cost; only the others are measured."""

REPETITIONS = 5

BARE_ROUND = Path(__file__).with_name("bare_round.py")


def test_a_round_costs_at_most_two_and_a_half_times_its_commands_and_bare_calls(
    tmp_path: Path, own_home: Path
) -> None:
    rounds: list[float] = []
    bare: list[float] = []
    shortest: list[float] = []
    with endless_server() as server:
        total = SKIPPED + MEASURED
        goal = write_goal(
            tmp_path,
            total,
            agent="openai/agent",
            judge="openai/judge",
            api_base=server.base_url,
        )
        requests = tmp_path / "requests.json"
        for _ in range(1 + REPETITIONS):
            server.requests.clear()
            run_process(
                [GOAL, "run", str(goal)],
                codes=(CAPPED,),
                env={"OPENAI_API_KEY": "none"},
            )
            rounds.append(_seconds_a_round(own_home))
            requests.write_text(json.dumps(_measured(server.requests)))
            bare.append(_bare(server.base_url, tmp_path, str(requests)))
            shortest.append(_bare(server.base_url, tmp_path))
    # What no bound is promised for: calls of two short messages, without tools, not streaming.
    remark(
        "the same commands, and three of the shortest calls",
        _milliseconds(shortest),
        "ms",
    )
    remark("a round against these", Pairs(rounds[1:], shortest[1:]).ratios, "times")
    # A round writes some twenty-five times and waits for the disk each time: on a slow or busy disk that is most of it.
    remark(
        "one append that is on disk",
        [1000 * _append_seconds(own_home) for _ in range(20)],
        "ms",
    )
    hold(
        "a round / its commands and its calls made bare",
        Pairs(_milliseconds(rounds), _milliseconds(bare)),
        "ms",
    )


def _milliseconds(seconds: list[float]) -> list[float]:
    """All but the first, which warmed up what is shared."""
    return [1000 * value for value in seconds[1:]]


def _append_seconds(home: Path) -> float:
    with (home / "appended").open("ab", buffering=0) as file:
        file.write(b"x" * 300)
        began = time.perf_counter()
        os.fsync(file.fileno())
        return time.perf_counter() - began


def _seconds_a_round(home: Path) -> float:
    """From the last verdict of the rounds that are skipped to the last one of the newest run, by the log's own clock."""
    newest = max(
        home.glob("runs/*/events.jsonl"), key=lambda path: path.stat().st_mtime
    )
    records = [json.loads(line) for line in newest.read_text().splitlines()]
    verdicts = [
        record for record in records if record["event"]["type"] == "verdict_recorded"
    ]
    ends = [
        record["elapsed"] for record in verdicts if record["event"]["round"]
    ]  # that of the baseline has round 0
    assert len(ends) == SKIPPED + MEASURED
    return float(ends[-1] - ends[SKIPPED - 1]) / MEASURED


def _measured(requests: list[Seen]) -> list[dict[str, object]]:
    """The bodies of the requests of the rounds that are measured."""
    return [seen.body for seen in requests[-3 * MEASURED :]]


def _bare(base: str, folder: Path, *requests: str) -> float:
    arguments = [base, str(MEASURED), SHELL, VALIDATOR, *requests]
    return float(
        run_process([sys.executable, str(BARE_ROUND), *arguments], cwd=folder).stdout
    )
