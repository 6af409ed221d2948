"""Reported usage is recorded as sums; of totals the difference is new; what is not reported is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalrunner.agents.parser import CallFinished, CallStarted, SessionStarted, StreamEvent, Text, UsageReported
from goalrunner.agents.turn import CommandTurn, usage_delta
from goalrunner.core.outcome import Usage
from tests.support.agents import MemoryRecorder


@pytest.mark.parametrize(
    ("report", "dollars"),
    [
        (UsageReported(10, 5, 0.25), 0.25),
        (UsageReported(10, 5, None), None),
        (UsageReported(10, 5, 0.0), None),  # tokens for nothing: a model whose price the agent does not know
        (UsageReported(0, 0, 0.0), 0.0),
        (UsageReported(10, 5, 0.0, dollars=False), 0.0),  # another line tells the dollars
        (UsageReported(0, 0, 0.0, tokens=False), 0.0),
    ],
)
def test_tokens_for_no_dollars_have_no_known_price(report: UsageReported, dollars: float | None) -> None:
    new, total = usage_delta(report, Usage())
    assert new.cost_usd == dollars
    assert total == Usage()


def test_of_totals_the_difference_is_new() -> None:
    _, first = usage_delta(UsageReported(10, 5, 0.25, cumulative=True), Usage())
    new, second = usage_delta(UsageReported(30, 7, 1.0, cumulative=True), first)
    assert (new.input_tokens, new.output_tokens, new.cost_usd, new.calls) == (20, 2, 0.75, 1)
    assert (second.input_tokens, second.output_tokens, second.cost_usd) == (30, 7, 1.0)


def test_a_total_that_shrank_is_all_new() -> None:
    _, first = usage_delta(UsageReported(10, 5, 0.25, cumulative=True), Usage())
    new, _ = usage_delta(UsageReported(4, 1, 0.125, cumulative=True), first)
    assert (new.input_tokens, new.output_tokens, new.cost_usd) == (4, 1, 0.125)


async def turned(folder: Path, *happenings: StreamEvent, cut: bool = False) -> tuple[CommandTurn, MemoryRecorder]:
    recorder = MemoryRecorder(folder)
    turn = CommandTurn("x", recorder, [])
    for happening in happenings:
        await turn.add(happening)
    await turn.end()
    if not cut:
        turn.settle()
    return turn, recorder


def total(recorder: MemoryRecorder) -> Usage:
    return sum((usage for _, usage in recorder.usages), Usage())


async def test_what_was_used_is_written_before_what_is_done_next(tmp_path: Path) -> None:
    _, recorder = await turned(
        tmp_path, UsageReported(1, 1, 0.5), CallStarted("1", "sh"), UsageReported(2, 2, 0.5), CallFinished("1")
    )
    assert recorder.trail[:4] == ["usage", "called 1 sh ", "usage", "result 1 "]


async def test_a_session_is_written_at_once_with_what_was_used_before(tmp_path: Path) -> None:
    recorder = MemoryRecorder(tmp_path)
    turn = CommandTurn("x", recorder, [])
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
