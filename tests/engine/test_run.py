"""The loop over scripted parts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from goalrunner.core import events
from goalrunner.core.agent_ports import Observer
from goalrunner.core.errors import AuthenticationFailed, ConversationBusy, RecordError
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason, Usage
from goalrunner.core.ports import Judge, Validator
from goalrunner.core.verdict import GoalVerdict
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.parts import Parts
from goalrunner.engine.prompts import Prompts
from goalrunner.engine.run import Run
from goalrunner.records.event_log import SystemClock
from goalrunner.testing import (
    ScriptedConversation,
    ScriptedJudge,
    ScriptedRound,
    ScriptedValidator,
    satisfied,
    shell_result,
    unsatisfied,
)
from tests.support.memory import (
    ManualClock,
    MemoryArtifacts,
    MemoryLog,
    MemoryTranscript,
    RecordingObserver,
)


class Bench:
    """A run with everything scripted; `log` and `observer` show what happened."""

    def __init__(
        self,
        tmp_path: Path,
        conversation: ScriptedConversation,
        *,
        validators: Sequence[Validator] = (),
        judge: Judge | None = None,
        goal: Goal | None = None,
        log: MemoryLog | None = None,
        plan: events.RunRules | None = None,
        artifacts: MemoryArtifacts | None = None,
        clock: SystemClock | None = None,
    ) -> None:
        self.goal = goal or Goal(objective="make it work")
        self.log = log or MemoryLog()
        self.observer = RecordingObserver()
        numbers = itertools.count()
        parts = Parts(
            conversation=conversation,
            validators=tuple(validators),
            judge=judge,
            log=self.log,
            transcript=MemoryTranscript(),
            artifacts=artifacts or MemoryArtifacts(),
            clock=clock or ManualClock(),
            workspace=tmp_path,
            scratch=lambda suffix: tmp_path / f"scratch-{next(numbers)}{suffix}",
            store_traceback=self._store_traceback,
        )
        self.traceback = ""
        self.saves = 0
        journal = RunJournal(
            parts.log, parts.transcript, parts.artifacts, (self.observer,), self._save
        )
        self.run = Run(
            parts,
            journal,
            Prompts(self.goal).render,
            fresh_rounds=not self.goal.preserve_context,
        )
        record = events.GoalRecord(
            goal_id="g",
            run_id="r",
            description=self.goal.objective,
            created_at="t0",
            updated_at="t0",
        )
        self.plan = plan or events.RunRules(
            validators=tuple(validator.name for validator in validators),
            has_judge=judge is not None,
            max_iterations=3,
            timeout=self.goal.timeout,
            deliverable=self.goal.deliverable,
        )
        self.run.start(
            events.GoalCreated(goal=record, plan=self.plan),
            events.RunStarted(workspace=str(tmp_path), version="0"),
        )

    def _save(self, state: object) -> None:
        self.saves += 1

    def _store_traceback(self, text: str) -> str:
        self.traceback = text
        return "the traceback is here"

    async def drive(self) -> GoalOutcome:
        return await self.run.drive()


class _Failing(RecordingObserver):
    def on_text(self, delta: str) -> None:
        raise OSError("the terminal is gone")


def test_text_streams_while_an_observer_shows_it() -> None:
    class Records:
        def on_record(self, record: events.Record) -> None:
            """Not needed."""

    def journal(*observers: Observer) -> RunJournal:
        return RunJournal(MemoryLog(), MemoryTranscript(), MemoryArtifacts(), observers)

    assert not journal().streams_text
    assert not journal(Records()).streams_text
    shown = RecordingObserver()
    both = journal(Records(), shown, _Failing())
    assert both.streams_text
    both.stream("text")
    assert shown.text == "text"
    alone = journal(_Failing())
    alone.stream("text")
    assert not alone.streams_text


async def test_an_honest_run_is_a_trajectory_of_typed_events(tmp_path: Path) -> None:
    conversation = ScriptedConversation(
        ScriptedRound(
            text="I fixed it", tools=(shell_result("c1", "pytest -q", "1 failed", 1),)
        ),
        ScriptedRound(
            text="now really", tools=(shell_result("c2", "pytest -q", "1 passed"),)
        ),
    )
    bench = Bench(
        tmp_path,
        conversation,
        validators=[ScriptedValidator("assert 1 == 2", True)],
        judge=ScriptedJudge(satisfied()),
    )
    outcome = await bench.drive()
    assert (outcome.status, outcome.stop_reason, outcome.iterations) == (
        GoalStatus.COMPLETE,
        StopReason.SATISFIED,
        2,
    )
    work = [
        "message",
        "tool_called",
        "tool_result_recorded",
        "message",
        "usage_recorded",
        "message",
        "round_finished",
    ]
    check = ["step_started", "validators_finished"]
    assert bench.log.types() == [
        "goal_created",
        "run_started",
        *("round_started", *work, *check),
        *("round_started", *work, *check),
        *("audit_started", "usage_recorded", "verdict_recorded"),
        "run_ended",
    ]
    assert [attempt.passed for attempt in outcome.attempts] == [False, True]


async def test_the_red_output_goes_back_verbatim_as_a_user_message(
    tmp_path: Path,
) -> None:
    conversation = ScriptedConversation("one", "two")
    feedback = "E   assert '{x}' == 'y'\nFAILED tests/test_a.py"
    bench = Bench(
        tmp_path, conversation, validators=[ScriptedValidator(feedback, True)]
    )
    assert (await bench.drive()).passed
    assert feedback in conversation.prompts[1]


async def test_the_judges_missing_goes_back_verbatim(tmp_path: Path) -> None:
    conversation = ScriptedConversation("one", "two")
    judge = ScriptedJudge(unsatisfied("no evidence that parse('') works"), satisfied())
    assert (await Bench(tmp_path, conversation, judge=judge).drive()).passed
    assert "no evidence that parse('') works" in conversation.prompts[1]


async def test_an_unreadable_judge_is_asked_again_and_the_agent_is_not(
    tmp_path: Path,
) -> None:
    conversation = ScriptedConversation("one", "two")
    fallback = GoalVerdict(score=0.0, complete=False, source="fallback", missing="")
    assert (
        await Bench(
            tmp_path, conversation, judge=ScriptedJudge(fallback, satisfied())
        ).drive()
    ).passed
    assert len(conversation.prompts) == 1


async def test_the_cap_ends_the_run_with_its_last_verdict(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        ScriptedConversation("a", "b", "c"),
        validators=[ScriptedValidator(False, False, "still red")],
    )
    outcome = await bench.drive()
    assert (outcome.status, outcome.stop_reason, outcome.iterations) == (
        GoalStatus.CAPPED,
        StopReason.MAX_ITERATIONS,
        3,
    )
    assert outcome.verdict is not None
    assert outcome.verdict.missing == "validator check: red\nstill red"
    assert outcome.exit_code == 1


async def test_validators_run_side_by_side_and_serial_ones_after_them(
    tmp_path: Path,
) -> None:
    running: list[str] = []
    trace: list[str] = []

    class Watched(ScriptedValidator):
        async def validate(self, context):  # type: ignore[no-untyped-def]
            running.append(self.name)
            await asyncio.sleep(0.01)
            trace.append("+".join(sorted(running)))
            running.remove(self.name)
            return await super().validate(context)

    validators = [
        Watched(True, name="serial1", serial=True),
        Watched(True, name="a"),
        Watched(True, name="b"),
        Watched(True, name="serial2", serial=True),
    ]
    outcome = await Bench(
        tmp_path, ScriptedConversation("x"), validators=validators
    ).drive()
    assert outcome.passed
    assert trace == ["a+b", "b", "serial1", "serial2"]


async def test_the_deadline_cuts_a_round_in_mid_flight(tmp_path: Path) -> None:
    goal = Goal(objective="x", timeout=0.05)
    bench = Bench(
        tmp_path,
        ScriptedConversation(ScriptedRound(delay=30)),
        validators=[ScriptedValidator()],
        goal=goal,
    )
    outcome = await bench.drive()
    assert (outcome.status, outcome.stop_reason) == (
        GoalStatus.CAPPED,
        StopReason.TIMEOUT,
    )
    assert (
        outcome.message
        == "the time limit of 0.05 s was reached while the agent of round 1 ran"
    )


async def test_a_signal_ends_as_cancelled_and_keeps_its_number(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        ScriptedConversation(ScriptedRound(delay=30)),
        validators=[ScriptedValidator()],
    )
    task = asyncio.create_task(bench.drive())
    await asyncio.sleep(0.01)
    bench.run.interrupt(15)
    task.cancel()
    outcome = await task
    assert (outcome.status, outcome.stop_reason, outcome.exit_code) == (
        GoalStatus.CANCELLED,
        StopReason.INTERRUPTED,
        143,
    )


async def test_the_callers_own_cancellation_is_recorded_and_passed_on(
    tmp_path: Path,
) -> None:
    bench = Bench(
        tmp_path,
        ScriptedConversation(ScriptedRound(delay=30)),
        validators=[ScriptedValidator()],
    )
    task = asyncio.create_task(bench.drive())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.log.types()[-1] == "run_ended"


async def test_a_wrong_key_fails_at_once_with_the_line_that_fixes_it(
    tmp_path: Path,
) -> None:
    error = AuthenticationFailed("openai refuses the key", "export OPENAI_API_KEY=...")
    bench = Bench(
        tmp_path,
        ScriptedConversation(ScriptedRound(error=error)),
        validators=[ScriptedValidator()],
    )
    outcome = await bench.drive()
    assert (outcome.status, outcome.stop_reason, outcome.iterations) == (
        GoalStatus.FAILED,
        StopReason.AUTHENTICATION,
        0,
    )
    assert outcome.message == "openai refuses the key\nexport OPENAI_API_KEY=..."


async def test_a_budget_cuts_between_model_calls(tmp_path: Path) -> None:
    plan = events.RunRules(has_judge=True, tokens=100)
    conversation = ScriptedConversation(ScriptedRound(usage=Usage(input_tokens=100)))
    outcome = await Bench(
        tmp_path, conversation, judge=ScriptedJudge(), plan=plan
    ).drive()
    assert (outcome.status, outcome.stop_reason) == (
        GoalStatus.CAPPED,
        StopReason.BUDGET_EXHAUSTED,
    )


async def test_a_defect_of_a_part_fails_the_run_and_keeps_the_traceback(
    tmp_path: Path,
) -> None:
    bench = Bench(
        tmp_path,
        ScriptedConversation(ScriptedRound(error=ZeroDivisionError("oops"))),
        judge=ScriptedJudge(),
    )
    outcome = await bench.drive()
    assert (outcome.status, outcome.stop_reason) == (
        GoalStatus.FAILED,
        StopReason.INTERNAL_ERROR,
    )
    assert outcome.message.splitlines()[1] == "the traceback is here"
    assert "ZeroDivisionError: oops" in bench.traceback


async def test_a_timeout_error_from_a_part_is_no_deadline(tmp_path: Path) -> None:
    goal = Goal(objective="x", timeout=60)
    conversation = ScriptedConversation(ScriptedRound(error=TimeoutError("socket")))
    outcome = await Bench(
        tmp_path, conversation, judge=ScriptedJudge(), goal=goal
    ).drive()
    assert outcome.stop_reason is StopReason.INTERNAL_ERROR


async def test_a_log_that_cannot_be_written_is_an_error_and_no_outcome(
    tmp_path: Path,
) -> None:
    class FullDisk(MemoryLog):
        def append(self, event: events.Event) -> events.Record:
            if len(self.records) == 5:
                raise RecordError("no space left")
            return super().append(event)

    with pytest.raises(RecordError, match="no space left"):
        await Bench(
            tmp_path,
            ScriptedConversation("x"),
            judge=ScriptedJudge(satisfied()),
            log=FullDisk(),
        ).drive()


async def test_a_second_driver_on_a_busy_conversation_is_refused(
    tmp_path: Path,
) -> None:
    conversation = ScriptedConversation(ScriptedRound(delay=30))
    first = Bench(tmp_path, conversation, judge=ScriptedJudge())
    task = asyncio.create_task(first.drive())
    await asyncio.sleep(0.01)
    with pytest.raises(ConversationBusy):
        await Bench(tmp_path, conversation, judge=ScriptedJudge()).drive()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_without_context_each_retry_sees_the_original_input_and_the_latest_feedback_alone(
    tmp_path: Path,
) -> None:
    goal = Goal(objective="the original input", preserve_context=False)
    conversation = ScriptedConversation("a", "b", "c")
    bench = Bench(
        tmp_path,
        conversation,
        validators=[ScriptedValidator("first red", "second red", True)],
        goal=goal,
    )
    assert (await bench.drive()).passed
    assert len(conversation.messages) == 2
    (prompt,) = conversation.prompts
    assert prompt.startswith("the original input")
    assert "second red" in prompt
    assert "first red" not in prompt


async def test_a_deliverable_response_is_an_observation_of_its_round(
    tmp_path: Path,
) -> None:
    goal = Goal(objective="explain rainbows", deliverable="response")
    judge = ScriptedJudge(
        unsatisfied("shorter"), satisfied(observation="o2", quote="short")
    )
    outcome = await Bench(
        tmp_path, ScriptedConversation("long", "short"), judge=judge, goal=goal
    ).drive()
    assert outcome.passed
    trail = judge.requests[1].trail
    observation = trail.observation("o2")
    assert observation is not None
    assert observation.heading == "[o2] response (round 2)"
    assert trail.read(observation) == "short"


async def test_criteria_of_the_first_audit_bind_the_later_ones(tmp_path: Path) -> None:
    judge = ScriptedJudge(
        unsatisfied("more", criterion="tests pass"), satisfied(criterion="tests pass")
    )
    await Bench(tmp_path, ScriptedConversation("a", "b"), judge=judge).drive()
    assert [request.success_criteria for request in judge.requests] == [
        (),
        ("tests pass",),
    ]


async def test_claims_and_observations_reach_the_judge_in_order(tmp_path: Path) -> None:
    judge = ScriptedJudge(satisfied())
    conversation = ScriptedConversation(
        ScriptedRound(
            text="all green", tools=(shell_result("c1", "pytest", "1 passed"),)
        )
    )
    await Bench(
        tmp_path, conversation, judge=judge, validators=[ScriptedValidator(True)]
    ).drive()
    trail = judge.requests[0].trail
    assert [(item.kind, trail.read(item)) for item in trail.items] == [
        ("observation", "1 passed"),
        ("claim", "all green"),
        ("observation", ""),
    ]
    assert [item.heading for item in trail.items if item.kind == "observation"] == [
        "[o1] shell (exit 0)",
        "[o2] validator check (green)",
    ]


async def test_a_validator_that_leaves_or_interrupts_never_tears_down_the_loop(
    tmp_path: Path,
) -> None:
    class Raising(ScriptedValidator):
        def __init__(self, error: BaseException) -> None:
            super().__init__()
            self._error = error

        async def validate(self, context):  # type: ignore[no-untyped-def]
            raise self._error

    left = Bench(
        tmp_path,
        ScriptedConversation("a", "b", "c"),
        validators=[Raising(SystemExit(0))],
    )
    outcome = await left.drive()
    assert (outcome.status, outcome.iterations) == (GoalStatus.CAPPED, 3)
    assert outcome.attempts[0].feedback == "validator check: SystemExit: 0"
    interrupted = Bench(
        tmp_path, ScriptedConversation("a"), validators=[Raising(KeyboardInterrupt())]
    )
    outcome = await interrupted.drive()
    assert (outcome.status, outcome.stop_reason, outcome.exit_code) == (
        GoalStatus.CANCELLED,
        StopReason.INTERRUPTED,
        130,
    )
