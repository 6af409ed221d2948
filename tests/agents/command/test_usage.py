"""Reported usage is recorded as sums; of totals the difference is new; what is not reported is unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goalrunner.agents.output_reader import Reader
from goalrunner.agents.parser import (
    CallFinished,
    CallStarted,
    SessionStarted,
    StreamEvent,
    Text,
    UsageReported,
)
from goalrunner.agents.reported_usage import usage_delta
from goalrunner.agents.turn import CommandTurn
from goalrunner.core.outcome import Usage
from tests.support.agents import MemoryRecorder


@pytest.mark.parametrize(
    ("report", "dollars"),
    [
        (UsageReported(10, 5, 0.25), 0.25),
        (UsageReported(10, 5, None), None),
        (
            UsageReported(10, 5, 0.0),
            None,
        ),  # tokens for nothing: a model whose price the agent does not know
        (UsageReported(0, 0, 0.0), 0.0),
        (
            UsageReported(10, 5, 0.0, dollars=False),
            0.0,
        ),  # another line tells the dollars
        (UsageReported(0, 0, 0.0, tokens=False), 0.0),
    ],
)
def test_tokens_for_no_dollars_have_no_known_price(
    report: UsageReported, dollars: float | None
) -> None:
    new, total = usage_delta(report, Usage())
    assert new.cost_usd == dollars
    assert total == Usage()


def test_of_totals_the_difference_is_new() -> None:
    _, first = usage_delta(UsageReported(10, 5, 0.25, cumulative=True), Usage())
    new, second = usage_delta(UsageReported(30, 7, 1.0, cumulative=True), first)
    assert (new.input_tokens, new.output_tokens, new.cost_usd, new.calls) == (
        20,
        2,
        0.75,
        1,
    )
    assert (second.input_tokens, second.output_tokens, second.cost_usd) == (30, 7, 1.0)


def test_a_total_that_shrank_is_all_new() -> None:
    _, first = usage_delta(UsageReported(10, 5, 0.25, cumulative=True), Usage())
    new, _ = usage_delta(UsageReported(4, 1, 0.125, cumulative=True), first)
    assert (new.input_tokens, new.output_tokens, new.cost_usd) == (4, 1, 0.125)


async def turned(
    folder: Path, *happenings: StreamEvent, cut: bool = False
) -> tuple[CommandTurn, MemoryRecorder]:
    recorder = MemoryRecorder(folder)
    turn = CommandTurn("x", recorder, [])
    for happening in happenings:
        await turn.add(happening)
    await turn.end()
    if not cut:
        turn.count_missing_usage()
    return turn, recorder


def total(recorder: MemoryRecorder) -> Usage:
    return sum((usage for _, usage in recorder.usages), Usage())


async def test_what_was_used_is_written_before_what_is_done_next(
    tmp_path: Path,
) -> None:
    _, recorder = await turned(
        tmp_path,
        UsageReported(1, 1, 0.5),
        CallStarted("1", "sh"),
        UsageReported(2, 2, 0.5),
        CallFinished("1"),
    )
    assert recorder.trail[:4] == ["usage", "called 1 sh ", "usage", "result 1 "]


async def test_a_session_is_written_at_once_with_what_was_used_before(
    tmp_path: Path,
) -> None:
    recorder = MemoryRecorder(tmp_path)
    turn = CommandTurn("x", recorder, [])
    await turn.add(SessionStarted("a"))
    assert [session.id for session in recorder.sessions] == ["a"]
    await turn.add(UsageReported(5, 5, 1.0, cumulative=True))
    await turn.end()
    assert [session.total.tokens for session in recorder.sessions] == [0, 10]


@pytest.mark.parametrize("version", ["197", "290", "332"])
async def test_dollars_of_claude_add_up_over_rounds_in_each_version(
    tmp_path: Path, version: str
) -> None:
    """197 reports the usage of the process, 290 that of the session, and 332 that since the last result."""
    samples = {
        "197": ("197_round", "197_resume"),
        "290": ("290_round", "290_resume"),
        "332": ("round", "resume"),
    }
    recorder, session, reported = MemoryRecorder(tmp_path), None, []
    for sample in samples[version]:
        turn = CommandTurn("claude", recorder, [], session)
        data = (Path(__file__).parent / f"samples/claude_{sample}.jsonl").read_bytes()
        for event in Reader("claude").feed(data, final=True):
            await turn.add(event)
        await turn.end()
        turn.count_missing_usage()
        session = turn.session
        reported.append(json.loads(data.splitlines()[-1])["total_cost_usd"])
    used = total(recorder)
    assert used.cost_usd == pytest.approx(
        sum(reported) if version == "197" else reported[-1]
    )
    assert (used.input_tokens, used.output_tokens) == (
        (50, 25) if version == "197" else (40, 20)
    )
    assert (used.calls, used.uncounted_calls) == (2, 0)


async def test_results_of_one_process_are_not_counted_twice(tmp_path: Path) -> None:
    models = {"m": {"inputTokens": 10, "outputTokens": 5, "costUSD": 0.5}}
    twice = {"m": {"inputTokens": 30, "outputTokens": 9, "costUSD": 0.75}}
    lines = [
        {"type": "result", "modelUsage": models},
        {"type": "result", "modelUsage": twice},
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    _, recorder = await turned(tmp_path, *Reader("claude").feed(data, final=True))
    assert total(recorder) == Usage(
        input_tokens=30, output_tokens=9, cost_usd=0.75, calls=2
    )


async def test_an_unknown_version_is_never_counted_too_low(tmp_path: Path) -> None:
    """Without a version, totals of a session are taken for those of the process: too high, not too low."""
    recorder, session = MemoryRecorder(tmp_path), None
    for cost in (0.5, 0.75):
        turn = CommandTurn("claude", recorder, [], session)
        models = {"m": {"inputTokens": 1, "outputTokens": 1, "costUSD": cost}}
        lines = [
            {
                "type": "system",
                "subtype": "init",
                "session_id": "s",
                "claude_code_version": "next",
            },
            {
                "type": "assistant",
                "message": {"content": [{"type": "text", "text": "Done."}]},
            },
            {"type": "result", "modelUsage": models},
        ]
        for event in Reader("claude").feed(
            "".join(json.dumps(line) + "\n" for line in lines).encode(), final=True
        ):
            await turn.add(event)
        await turn.end()
        turn.count_missing_usage()
        session = turn.session
    assert total(recorder).cost_usd == 1.25


TOKENS = UsageReported(5, 5, 0.0, dollars=False)
DOLLARS = UsageReported(cost=0.5, cumulative=True, tokens=False)


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ((Text("a"),), Usage.unknown()),
        (
            (Text("a"), TOKENS, DOLLARS),
            Usage(input_tokens=5, output_tokens=5, cost_usd=0.5, calls=1),
        ),
        (
            (Text("a"), TOKENS),
            Usage(input_tokens=5, output_tokens=5, cost_usd=None, calls=1),
        ),  # dollars were promised
        ((Text("a"), DOLLARS), Usage(cost_usd=0.5, calls=1, uncounted_calls=1)),
        ((), Usage()),
    ],
)
async def test_what_a_turn_does_not_tell_is_unknown(
    tmp_path: Path, told: tuple[StreamEvent, ...], known: Usage
) -> None:
    _, recorder = await turned(tmp_path, *told)
    assert total(recorder) == known


async def test_a_report_of_nothing_is_not_believed_of_a_turn_with_calls(
    tmp_path: Path,
) -> None:
    _, recorder = await turned(
        tmp_path, CallStarted("1", "sh"), CallFinished("1"), UsageReported(0, 0, 0.0)
    )
    assert (total(recorder).cost_usd, total(recorder).uncounted_calls) == (None, 1)
    _, recorder = await turned(tmp_path, Text("used up"), UsageReported(0, 0, 0.0))
    assert (total(recorder).cost_usd, total(recorder).uncounted_calls) == (0.0, 0)


async def test_of_a_cut_turn_only_the_reported_usage_is_recorded(
    tmp_path: Path,
) -> None:
    _, recorder = await turned(tmp_path, Text("a"), cut=True)
    assert recorder.usages == []
    _, recorder = await turned(tmp_path, Text("a"), TOKENS, cut=True)
    assert total(recorder) == Usage(input_tokens=5, output_tokens=5, calls=1)
