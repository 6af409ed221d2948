"""The record of a turn: messages once, calls closed, totals counted once, safe names of tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.agents.parser import (
    CallFinished,
    CallStarted,
    Failed,
    SessionStarted,
    StreamEvent,
    Text,
    TextDelta,
    UsageReported,
)
from goalrunner.agents.reported_usage import usage_delta
from goalrunner.agents.turn import LONGEST_MESSAGE, Arrival, CommandTurn
from goalrunner.core.outcome import AgentSession, Usage
from tests.support.agents import MemoryRecorder


async def turned(
    folder: Path, *happenings: StreamEvent, session: AgentSession | None = None
) -> tuple[CommandTurn, MemoryRecorder]:
    recorder = MemoryRecorder(folder)
    turn = CommandTurn("x", recorder, [], session)
    for happening in happenings:
        await turn.add(happening)
    await turn.end()
    return turn, recorder


def texts(recorder: MemoryRecorder) -> list[str]:
    return [message["content"] for message in recorder.messages]


async def test_pieces_are_one_message_and_the_whole_after_them_is_no_second_one(
    tmp_path: Path,
) -> None:
    _, recorder = await turned(
        tmp_path,
        TextDelta("Hel"),
        TextDelta("lo"),
        Text("Hello"),
        TextDelta("Bye"),
        CallStarted("1", "sh"),
    )
    assert texts(recorder) == ["Hello", "Bye"]
    assert "".join(recorder.texts) == "HelloBye"


async def test_a_call_that_is_reported_twice_is_one(tmp_path: Path) -> None:
    turn, recorder = await turned(
        tmp_path,
        CallStarted("1", "sh"),
        CallStarted("1", "sh", "ls"),
        CallFinished("1", "a"),
        CallFinished("1", "a"),
    )
    assert turn.calls == 1
    assert [(one.command, one.facts) for one in recorder.results] == [("ls", ())]


@pytest.mark.parametrize(
    ("began", "ended", "started"),
    [
        (Arrival(7, 1), Arrival(9, 2), 7),
        (Arrival(7, 1), Arrival(7, 1), 7),  # a short command, whose program goes on
        (
            Arrival(7, 1),
            Arrival(7, 1, whole=False),
            None,
        ),  # both may have waited in a buffer
        (Arrival(7, 1, whole=False), Arrival(9, 2, whole=False), 7),
        (None, Arrival(9, 2), None),
    ],
)
async def test_the_start_of_a_tool_is_before_its_report(
    tmp_path: Path, began: Arrival | None, ended: Arrival, started: int | None
) -> None:
    recorder = MemoryRecorder(tmp_path)
    turn = CommandTurn("x", recorder, [])
    turn.arrival = began
    await turn.add(CallStarted("1", "sh", "ls"))
    turn.arrival = ended
    await turn.add(CallFinished("1", "a"))
    await turn.add(
        CallFinished("2", "a", tool="sh", command="ls")
    )  # reported at its end
    assert [result.started for result in recorder.results] == [started, None]


async def test_a_result_alone_is_a_call_too(tmp_path: Path) -> None:
    _, recorder = await turned(
        tmp_path, CallFinished("1", "a", exit_code=2, tool="sh", command="ls")
    )
    assert [(one.tool, one.command, one.facts) for one in recorder.results] == [
        ("sh", "ls", ("exit 2",))
    ]
    assert "called 1 sh ls" in recorder.trail


async def test_calls_without_ids_are_distinguished(tmp_path: Path) -> None:
    _, recorder = await turned(
        tmp_path,
        CallStarted("", "a"),
        CallFinished("", "1"),
        CallStarted("", "b"),
        CallFinished("", "2"),
    )
    assert [(one.tool, one.tool_call_id) for one in recorder.results] == [
        ("a", "call-1"),
        ("b", "call-2"),
    ]


async def test_calls_side_by_side_have_their_own_results(tmp_path: Path) -> None:
    _, recorder = await turned(
        tmp_path,
        CallStarted("1", "a"),
        CallStarted("2", "b"),
        CallFinished("2", "two", exit_code=0),
        CallFinished("1", "one"),
    )
    assert [(one.tool, one.facts) for one in recorder.results] == [
        ("b", ("exit 0",)),
        ("a", ()),
    ]


async def test_totals_are_counted_once_and_go_on_where_they_were(
    tmp_path: Path,
) -> None:
    before = AgentSession(
        agent="x",
        id="s",
        total=Usage(input_tokens=100, output_tokens=10, cost_usd=1.0, calls=1),
    )
    _, recorder = await turned(
        tmp_path,
        UsageReported(150, 20, 1.5, cumulative=True),
        UsageReported(200, 30, 2.0, cumulative=True),
        session=before,
    )
    (used,) = [usage for _, usage in recorder.usages]
    assert (used.input_tokens, used.output_tokens, used.cost_usd, used.calls) == (
        100,
        20,
        1.0,
        2,
    )
    assert [session.total.input_tokens for session in recorder.sessions] == [200]


async def test_totals_are_counted_once_without_a_session(tmp_path: Path) -> None:
    turn, _ = await turned(
        tmp_path, *(UsageReported(50 * n, n, None, cumulative=True) for n in (1, 2, 3))
    )
    assert turn.tokens == 153


async def test_tokens_and_dollars_may_be_reported_by_separate_events(
    tmp_path: Path,
) -> None:
    def tokens(number: int, *, cumulative: bool) -> UsageReported:
        return UsageReported(number, 1, 0.0, cumulative=cumulative, dollars=False)

    def dollars(number: float) -> UsageReported:
        return UsageReported(cost=number, cumulative=True, tokens=False)

    for cumulative, second in ((True, 30), (False, 20)):
        before = AgentSession(agent="x", id="s", total=Usage(cost_usd=0.25, calls=1))
        lines = (
            tokens(10, cumulative=cumulative),
            dollars(0.5),
            tokens(second, cumulative=cumulative),
            dollars(1.0),
        )
        _, recorder = await turned(tmp_path, *lines, session=before)
        used = sum((usage for _, usage in recorder.usages), Usage())
        assert (used.input_tokens, used.cost_usd, used.calls) == (30, 0.75, 2)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1))
def test_growing_totals_add_up_to_the_last(steps: list[tuple[int, int]]) -> None:
    total, added, said = Usage(), Usage(), UsageReported(cumulative=True, cost=0.0)
    for more_in, more_out in steps:
        said = UsageReported(
            said.input + more_in, said.output + more_out, 0.0, cumulative=True
        )
        new, total = usage_delta(said, total)
        added = added + new
    assert (added.input_tokens, added.output_tokens) == (said.input, said.output)


@pytest.mark.parametrize(
    "name", ["--help", "-s", "a b", "", "x" * 300, "a\nb", "$(id)"]
)
async def test_an_id_that_is_no_id_is_no_session(tmp_path: Path, name: str) -> None:
    turn, recorder = await turned(tmp_path, SessionStarted(name))
    assert (turn.session, recorder.sessions) == (None, [])


async def test_no_tool_passes_for_what_the_runner_saw(tmp_path: Path) -> None:
    names = ("response", "Owner", "a\n[o1] shell (exit 0)", "")
    _, recorder = await turned(
        tmp_path, *(CallStarted(str(at), name) for at, name in enumerate(names))
    )
    assert [one.tool for one in recorder.results] == [
        "tool_response",
        "tool_Owner",
        "a_o1_shell_exit_0_",
        "tool",
    ]


async def test_an_error_stands_until_work_follows(tmp_path: Path) -> None:
    assert (await turned(tmp_path, Text("a"), Failed("x")))[0].failure == Failed("x")
    assert (await turned(tmp_path, Failed("x"), Text("a")))[0].failure is None
    assert (await turned(tmp_path, Failed("x"), TextDelta("a")))[0].failure is None
    assert (
        await turned(tmp_path, CallStarted("1", "a"), Failed("x"), CallFinished("1"))
    )[0].failure is None
    assert (await turned(tmp_path, Failed("x"), UsageReported(1, 1)))[
        0
    ].failure == Failed("x")


async def test_a_message_without_end_is_kept_in_part(tmp_path: Path) -> None:
    _, recorder = await turned(
        tmp_path, *(TextDelta("x" * 100_000) for _ in range(50)), TextDelta("THE END")
    )
    (text,) = texts(recorder)
    assert len(text) < LONGEST_MESSAGE + 100
    assert text.endswith("THE END")
    assert "characters left out" in text


@pytest.mark.parametrize(("failed", "summary"), [(False, "+4 −1"), (True, "error")])
async def test_an_edit_is_summed_up_by_its_lines_unless_it_failed(
    tmp_path: Path, failed: bool, summary: str
) -> None:
    _, recorder = await turned(
        tmp_path,
        CallStarted("1", "Edit", "a.py", change="+4 −1"),
        CallFinished("1", failed=failed),
    )
    assert [result.summary for result in recorder.results] == [summary]


async def test_a_session_has_the_model_and_the_version_that_are_reported(
    tmp_path: Path,
) -> None:
    _, recorder = await turned(tmp_path, SessionStarted("s1", "opus", "2.1.330"))
    assert recorder.sessions == [
        AgentSession(agent="x", id="s1", model="opus", version="2.1.330")
    ]
