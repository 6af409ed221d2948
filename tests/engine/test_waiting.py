"""Runs whose agent or judge cannot go on for a while."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core import events
from goalrunner.core.agent_ports import Message, Recorder, RoundReply, Unfinished
from goalrunner.core.errors import AgentError, Outage, ProviderUnavailable
from goalrunner.core.outcome import GoalStatus, StopReason
from goalrunner.engine.run import Run
from goalrunner.records.event_log import SystemClock
from goalrunner.testing import (
    ScriptedConversation,
    ScriptedJudge,
    ScriptedRound,
    ScriptedValidator,
    satisfied,
    shell_result,
)
from tests.engine.test_run import Bench
from tests.support.memory import MemoryLog

SOON = 0.3
"""Seconds until a limit resets."""


def limit(seconds: float | None = SOON, **more: Any) -> Outage:
    resets_at = (
        None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
    )
    return Outage("limit", "usage limit", resets_at, **more)


class UsedUp(AgentError):
    """The error of a limit that resets some seconds after it was raised."""

    def __init__(self, seconds: float) -> None:
        super().__init__("it is used up")
        self._seconds = seconds

    def __getattribute__(self, name: str) -> Any:
        return (
            limit(self._seconds) if name == "outage" else super().__getattribute__(name)
        )


def used_up(seconds: float = SOON) -> ScriptedRound:
    """A round that a usage limit ends at once."""
    return ScriptedRound(error=UsedUp(seconds))


def rules(**changes: Any) -> events.RunRules:
    fields = {
        "wait": 60.0,
        "max_iterations": 3,
        "timeout": 5.0,
        "validators": ("check",),
    }
    return events.RunRules(**{**fields, **changes})


class Stopwatch(SystemClock):
    """The clock of the system, whose seconds begin at 0."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def monotonic(self) -> float:
        """Return the seconds since the clock was made."""
        return time.monotonic() - self._began


def bench(
    tmp_path: Path, conversation: Any, plan: events.RunRules | None = None, **more: Any
) -> Bench:
    more = {"validators": [ScriptedValidator(True)], **more}
    clock = Stopwatch()
    return Bench(
        tmp_path,
        conversation,
        plan=plan or rules(),
        log=MemoryLog(clock),
        clock=clock,
        **more,
    )


def waits(begun: Bench) -> list[events.Event]:
    """The events about failures and waits."""
    about = (events.WorkFailed, events.WaitStarted, events.WaitEnded)
    return [
        record.event for record in begun.log.records if isinstance(record.event, about)
    ]


async def test_a_run_waits_until_the_limit_resets_and_goes_on(tmp_path: Path) -> None:
    run = bench(tmp_path, ScriptedConversation(used_up(), "done"))
    outcome = await run.drive()
    assert (outcome.status, outcome.iterations) == (GoalStatus.COMPLETE, 1)
    assert [event.type for event in waits(run)] == [
        "work_failed",
        "wait_started",
        "wait_ended",
    ]
    assert SOON / 2 < outcome.waited <= SOON
    begun, over = (
        run.log.records[run.log.types().index(name)].elapsed
        for name in ("wait_started", "wait_ended")
    )
    assert over - begun < SOON / 2
    assert outcome.resume_at == ""


async def test_a_wait_does_not_reach_the_time_limit_and_moves_the_deadline(
    tmp_path: Path,
) -> None:
    run = bench(
        tmp_path,
        ScriptedConversation(used_up(0.6), ScriptedRound(delay=0.1)),
        rules(timeout=0.5),
    )
    outcome = await run.drive()
    assert outcome.passed
    ended = next(
        record
        for record in run.log.records
        if isinstance(record.event, events.WaitEnded)
    )
    assert isinstance(ended.event, events.WaitEnded)
    assert ended.event.deadline_at is not None
    left = datetime.fromisoformat(ended.event.deadline_at) - datetime.fromisoformat(
        ended.at
    )
    assert left.total_seconds() == pytest.approx(0.5 - ended.elapsed, abs=0.1)


async def test_active_time_after_a_wait_counts(tmp_path: Path) -> None:
    run = bench(
        tmp_path,
        ScriptedConversation(used_up(), ScriptedRound(delay=9)),
        rules(timeout=0.2),
    )
    outcome = await run.drive()
    assert (outcome.stop_reason, outcome.iterations) == (StopReason.TIMEOUT, 0)


async def test_without_a_wait_the_run_ends_and_names_the_time(tmp_path: Path) -> None:
    run = bench(tmp_path, ScriptedConversation(used_up(3600)), rules(wait=0.0))
    outcome = await run.drive()
    assert (outcome.stop_reason, outcome.exit_code, outcome.waited) == (
        StopReason.AGENT_FAILED,
        4,
        0.0,
    )
    assert outcome.message.startswith("it is used up\nthe limit resets at ")
    assert datetime.fromisoformat(outcome.resume_at) > datetime.now(UTC)


async def test_an_overload_is_tried_again_after_a_pause_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalrunner.core.waiting.RETRY_PAUSES", (0.1, 0.1))
    overloaded = ScriptedRound(
        error=AgentError("529", outage=Outage("overload", "529 overloaded"))
    )
    run = bench(
        tmp_path, ScriptedConversation(overloaded, overloaded, "done"), rules(wait=0.0)
    )
    outcome = await run.drive()
    assert (outcome.status, outcome.waited) == (GoalStatus.COMPLETE, 0.0)
    assert outcome.duration >= 0.2
    started = [event for event in waits(run) if isinstance(event, events.WaitStarted)]
    assert [(event.kind, event.number) for event in started] == [
        ("retry", 1),
        ("retry", 2),
    ]


class SetBack(Stopwatch):
    """A clock that is set back by a day."""

    behind = timedelta(0)

    def now(self) -> datetime:
        """Return the time, before it was set back at first."""
        return super().now() - self.behind


async def test_a_clock_that_is_set_back_does_not_make_a_wait_longer(
    tmp_path: Path,
) -> None:
    clock = SetBack()
    conversation = ScriptedConversation(used_up(), "done")
    run = Bench(
        tmp_path,
        conversation,
        plan=rules(),
        log=MemoryLog(clock),
        clock=clock,
        validators=[ScriptedValidator(True)],
    )
    task = await started_waiting(run.run)
    clock.behind = timedelta(days=1)
    async with asyncio.timeout(5):
        assert (await task).passed


async def test_a_conversation_that_cannot_resume_gets_the_same_prompt_again(
    tmp_path: Path,
) -> None:
    conversation = ScriptedConversation(used_up(), "done")
    await bench(tmp_path, conversation).drive()
    first, second = conversation.prompts
    assert first == second


class Resuming(ScriptedConversation):
    """A conversation whose turns can be continued; it keeps what it gets then."""

    def __init__(self, *rounds: ScriptedRound | str) -> None:
        super().__init__(*rounds)
        self.resumed: list[tuple[str, Unfinished]] = []
        self.closed = 0

    def load(self, messages: Any, left: Unfinished, recorder: Recorder) -> None:
        """Load nothing."""

    def adopt_history(self, messages: Any, recorder: Recorder) -> None:
        """Adopt nothing."""

    async def resume_turn(
        self, notice: str, left: Unfinished, recorder: Recorder
    ) -> RoundReply:
        """Play the next round."""
        self.resumed.append((notice, left))
        return await self.send(notice or "go on", recorder)

    async def close(self) -> None:
        """Count how often it is closed."""
        self.closed += 1


async def test_a_conversation_that_can_resume_goes_on_with_its_turn(
    tmp_path: Path,
) -> None:
    conversation = Resuming(used_up(), "done")
    outcome = await bench(tmp_path, conversation).drive()
    assert outcome.passed
    assert conversation.resumed == [("", Unfinished())]
    assert conversation.closed == 2  # before the wait, and at the end


async def test_what_an_earlier_process_left_is_reported_once(tmp_path: Path) -> None:
    conversation = Resuming(used_up(), "done")
    run = bench(tmp_path, conversation)
    left = Unfinished(cut={"c1": ("shell", "make")})
    run.run.resumption.unfinished = left
    run.log.append(events.NoteAdded(note="begun"))
    run.run._journal.replay(run.log.records[-1])
    ref = run.run.parts.transcript.append({"role": "user", "content": "first"})
    for event in (
        events.RoundStarted(round=1, prompt="first"),
        events.MessageRecorded(role="user", text=ref),
    ):
        run.run._journal.append(event)
    assert (await run.drive()).passed
    assert conversation.resumed == [("", left), ("", Unfinished())]


async def test_the_judge_is_asked_again_after_a_wait(tmp_path: Path) -> None:
    judge = ScriptedJudge(UsedUp(SOON), satisfied())
    conversation = ScriptedConversation(
        ScriptedRound(tools=(shell_result("c1", "pytest -q", "1 passed"),))
    )
    run = bench(tmp_path, conversation, rules(has_judge=True), judge=judge)
    outcome = await run.drive()
    assert (outcome.status, outcome.iterations, len(judge.requests)) == (
        GoalStatus.COMPLETE,
        1,
        2,
    )
    assert [getattr(event, "account", "") for event in waits(run)] == [
        "judge",
        "judge",
        "",
    ]


async def test_a_judge_without_an_answer_ends_a_run_that_does_not_wait(
    tmp_path: Path,
) -> None:
    unavailable = ProviderUnavailable(
        "rate limit", outage=limit(None, was_retried=True)
    )
    run = bench(
        tmp_path,
        ScriptedConversation("done"),
        rules(has_judge=True, wait=0.0),
        judge=ScriptedJudge(unavailable),
    )
    outcome = await run.drive()
    assert (outcome.stop_reason, outcome.message) == (
        StopReason.JUDGE_FAILED,
        "rate limit",
    )


async def started_waiting(run: Run) -> asyncio.Task[Any]:
    """Return the task of a run that waits."""
    task = asyncio.create_task(run.drive())
    async with asyncio.timeout(5):
        while run.state.wait is None:
            await asyncio.sleep(0.01)
    return task


@pytest.mark.parametrize("ends", ["interrupted", "cancelled"])
async def test_a_wait_can_be_interrupted(tmp_path: Path, ends: str) -> None:
    run = bench(tmp_path, ScriptedConversation(used_up(3600)), rules(wait=None))
    task = await started_waiting(run.run)
    if ends == "interrupted":
        run.run.interrupt(2)
    else:
        run.run.cancel("cancelled by ann")
    task.cancel()
    outcome = await task
    assert (outcome.status, outcome.stop_reason) == (GoalStatus.CANCELLED, ends)
    assert datetime.fromisoformat(outcome.resume_at) > datetime.now(UTC) + timedelta(
        minutes=50
    )
    assert outcome.duration < 1


async def test_the_chat_of_the_messages_is_as_without_the_failure(
    tmp_path: Path,
) -> None:
    conversation = Resuming(ScriptedRound(error=UsedUp(SOON)), "done")
    await bench(tmp_path, conversation).drive()
    answers: list[Message] = [
        one for one in conversation.messages if one["role"] == "assistant"
    ]
    assert [one["content"] for one in answers] == ["done"]
