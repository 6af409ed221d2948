"""Reported usage is recorded as sums; what is not reported is unknown."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from goalrunner.agents.command_turn import CommandTurn
from goalrunner.agents.output_reader import INTERVAL
from goalrunner.agents.parser import CallFinished, CallStarted, SessionStarted, StreamEvent, Text, UsageReported
from goalrunner.core.outcome import Usage
from tests.support.agents import MemoryRecorder

MANY = 60_000


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def turned(
    folder: Path, *happenings: StreamEvent, clock: Clock | None = None, cut: bool = False
) -> tuple[CommandTurn, MemoryRecorder]:
    recorder = MemoryRecorder(folder)
    turn = CommandTurn("x", recorder, [], None, clock or Clock())
    for happening in happenings:
        await turn.add(happening)
    await turn.end()
    if not cut:
        turn.settle()
    return turn, recorder


def total(recorder: MemoryRecorder) -> Usage:
    return sum((usage for _, usage in recorder.usages), Usage())


@pytest.mark.bench
async def test_a_flood_of_reports_is_one_sum_in_flat_memory(tmp_path: Path) -> None:
    recorder, clock = MemoryRecorder(tmp_path), Clock()
    turn = CommandTurn("x", recorder, [], None, clock)
    report, named = UsageReported(3, 1, 0.25), (SessionStarted("a"), SessionStarted("b"))
    for number in range(1_000):
        await turn.add(named[number % 2])
        await turn.add(report)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(MANY // 3):
        await turn.add(named[number % 2])
        await turn.add(report)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for _ in range(MANY - MANY // 3 - 1_000):
        turn.usage.add(report)
    await turn.end()
    assert after - before < 10_000
    assert len(recorder.usages) == 1
    assert len(recorder.sessions) <= 2
    used = total(recorder)
    assert (used.tokens, used.cost_usd, used.calls) == (4 * MANY, MANY / 4, MANY)
    assert turn.usage.reports == MANY


async def test_a_sum_is_written_now_and_then(tmp_path: Path) -> None:
    recorder, clock = MemoryRecorder(tmp_path), Clock()
    turn = CommandTurn("x", recorder, [], None, clock)
    seen = []
    for _ in range(10):
        clock.now += INTERVAL / 2
        await turn.add(UsageReported(1, 1, 0.5))
        seen.append(len(recorder.usages))
    assert seen == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    await turn.end()
    assert total(recorder).tokens == 20


async def test_what_was_used_is_written_before_what_is_done_next(tmp_path: Path) -> None:
    _, recorder = await turned(
        tmp_path, UsageReported(1, 1, 0.5), CallStarted("1", "sh"), UsageReported(2, 2, 0.5), CallFinished("1")
    )
    assert recorder.trail[:4] == ["usage", "called 1 sh ", "usage", "result 1 "]


async def test_a_session_is_written_at_once_with_what_was_used_before(tmp_path: Path) -> None:
    recorder = MemoryRecorder(tmp_path)
    turn = CommandTurn("x", recorder, [], None, Clock())
    await turn.add(SessionStarted("a"))
    assert [session.id for session in recorder.sessions] == ["a"]
    await turn.add(UsageReported(5, 5, 1.0, cumulative=True))
    await turn.end()
    assert [session.total.tokens for session in recorder.sessions] == [0, 10]


TOKENS = UsageReported(5, 5, 0.0, dollars=False)
DOLLARS = UsageReported(cost=0.5, cumulative=True, tokens=False)


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ((Text("a"),), Usage.unknown()),
        ((Text("a"), TOKENS, DOLLARS), Usage(input_tokens=5, output_tokens=5, cost_usd=0.5, calls=1)),
        ((Text("a"), TOKENS), Usage(input_tokens=5, output_tokens=5, cost_usd=None, calls=1)),  # dollars were promised
        ((Text("a"), DOLLARS), Usage(cost_usd=0.5, calls=1, uncounted_calls=1)),
        ((), Usage()),
    ],
)
async def test_what_a_turn_does_not_tell_is_unknown(
    tmp_path: Path, told: tuple[StreamEvent, ...], known: Usage
) -> None:
    _, recorder = await turned(tmp_path, *told)
    assert total(recorder) == known


async def test_of_a_cut_turn_only_the_reported_usage_is_recorded(tmp_path: Path) -> None:
    _, recorder = await turned(tmp_path, Text("a"), cut=True)
    assert recorder.usages == []
    _, recorder = await turned(tmp_path, Text("a"), TOKENS, cut=True)
    assert total(recorder) == Usage(input_tokens=5, output_tokens=5, calls=1)
