"""The fold of the events."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core import events
from goalrunner.core.decision import RunRound, ScoreRound, Wait, decide
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Event, Record
from goalrunner.core.fold import apply
from goalrunner.core.observation import Observation, Snapshot
from goalrunner.core.outcome import GoalStatus, StopReason, Usage
from goalrunner.core.run_state import KEPT, Phase, RunState
from goalrunner.core.verdict import ValidatorResult
from goalrunner.testing import satisfied, unsatisfied
from tests.support.folding import state_after
from tests.support.memory import MemoryLog

CREATED = events.GoalCreated(
    goal=events.GoalRecord(
        goal_id="g", run_id="r", description="d", created_at="t0", updated_at="t0"
    ),
    plan=events.RunRules(
        validators=("tests",), has_judge=True, critic=events.CriticRule(name="critic")
    ),
)


def records(*happened: Event) -> list[Record]:
    """Numbered as a log numbers them."""
    log = MemoryLog()
    for event in (CREATED, *happened):
        log.append(event)
    return log.records


def fold(*happened: Event) -> RunState:
    """The state after these events."""
    state: RunState | None = None
    for record in records(*happened):
        state = apply(state, record)
    assert state is not None
    return state


def tool(number: int) -> events.ToolResultRecorded:
    """A tool result that became observation o<number>."""
    observation = Observation(id=f"o{number}", source="shell", round=1)
    return events.ToolResultRecorded(
        tool_call_id=f"call_{number}",
        evidence_ref=f"o{number}",
        observation=observation,
    )


GREEN = ValidatorResult(name="tests", passed=True)
RED = ValidatorResult(name="tests", passed=False)
WORK_FAILED = events.WorkFailed(
    account="agent",
    kind="limit",
    reason="limit",
    stop_reason=StopReason.AGENT_FAILED,
    message="it failed",
)
OTHER = Snapshot(id="b" * 64, tree="b" * 64)

SOME = st.lists(
    st.sampled_from(
        [
            events.RoundStarted(round=1, prompt="first"),
            tool(1),
            events.UsageRecorded(
                account="agent", usage=Usage(input_tokens=3, output_tokens=4)
            ),
            events.RoundFinished(round=1),
            events.CritiqueStarted(round=1),
            events.CritiqueFinished(round=1, score=0.4, feedback="more"),
            events.CritiqueFinished(round=1, problem="exit 1"),
            events.RefinementStarted(round=1, number=1),
            events.ValidatorsFinished(round=1, results=(GREEN,)),
            events.ValidatorsFinished(
                round=1, results=(RED,), labels=("flaky: tests",), refusal="refused"
            ),
            events.ValidatorsFinished(
                round=1, results=(GREEN,), leaked=("a.py",), snapshot=OTHER
            ),
            events.ValidatorsFinished(
                round=1,
                results=(RED,),
                changed_checks=events.ChangedChecks(
                    key="k", paths=("t.py",), results=(GREEN,)
                ),
                differing=("t.py",),
            ),
            events.ApprovalRequested(
                approval_id="a1", kind="checks", action="x", rule="r", snapshot="k"
            ),
            events.ApprovalRecorded(approval_id="a1", decision="approved"),
            events.ApprovalRecorded(approval_id="a1", decision="denied"),
            events.ChecksReviewStarted(round=1, key="k"),
            events.ChecksReviewed(round=1, key="k", decision="refused"),
            events.ChecksReviewed(
                round=1, key="k", decision="undecided", reason="too long"
            ),
            events.WorkspaceChanged(paths=("a.py",), snapshot=OTHER),
            events.BaselineTaken(standing="green", results=(GREEN,)),
            events.RunResumed(
                plan=CREATED.plan, version="0", changed=("a.py",), snapshot=OTHER
            ),
            events.AuditStarted(round=1),
            events.AuditFailed(round=1, kind="parse", detail="no JSON"),
            events.AuditFailed(round=1, kind="transport", detail="no answer"),
            events.VerdictRecorded(round=1, verdict=unsatisfied("more")),
            events.QuestionOpened(question="which?"),
            *(
                WORK_FAILED.model_copy(update={"account": account})
                for account in ("agent", "judge", "critic")
            ),
            events.WaitStarted(
                account="agent",
                kind="limit",
                reason="limit",
                until="2026-01-01T01:00:00+00:00",
            ),
            events.WaitStarted(
                account="judge",
                kind="retry",
                reason="529",
                until="2026-01-01T00:00:02+00:00",
            ),
            events.WaitEnded(deadline_at="2026-01-01T02:00:00+00:00"),
            events.AgentSwitched(
                round=1, index=1, agent="codex", before="claude", reason="limit"
            ),
            events.LimitReached(
                end=events.RunEnded(stop_reason=StopReason.TIMEOUT, message="late")
            ),
            events.RunEnded(stop_reason=StopReason.TIMEOUT, message="late"),
        ]
    ),
    max_size=30,
)


@given(SOME)
def test_applying_a_record_twice_changes_nothing(happened: list[Event]) -> None:
    state: RunState | None = None
    for record in records(*happened):
        state = apply(state, record)
        assert apply(state, record) == state


@given(SOME)
def test_a_round_is_counted_once(happened: list[Event]) -> None:
    state: RunState | None = None
    for record in records(*happened):
        state = apply(state, record)
        assert (
            state.iterations
            == len(state.attempts)
            == state.memory.budget_state.iteration_count
        )
        assert state.iterations <= state.round + 1
        assert [attempt.attempt for attempt in state.attempts] == list(
            range(1, state.iterations + 1)
        )


@given(SOME)
def test_what_counts_has_not_leaked_and_waits_for_no_decision(
    happened: list[Event],
) -> None:
    state = fold(*happened)
    if state.validators_green:
        assert not state.leaked
        assert not state.refusal
        assert state.changed_checks is None
    if state.approved_checks:
        assert state.approved_checks == {"k": ""}


@given(SOME)
def test_a_critic_asks_for_no_more_refinements_than_its_rule_allows(
    happened: list[Event],
) -> None:
    state = fold(*happened)
    step = decide(state)
    if (
        isinstance(step, RunRound)
        and step.kind == "refine"
        and state.phase is Phase.WORKED
    ):
        assert state.refinements == 0
    if isinstance(step, ScoreRound) and not step.problem:
        assert state.critique is None


@given(SOME)
def test_a_wait_follows_a_failure_and_both_are_over_together(
    happened: list[Event],
) -> None:
    state = fold(*happened)
    if happened and isinstance(happened[-1], events.WaitEnded):
        assert (state.wait, state.failure) == (None, None)
    if state.wait is not None and state.phase is not Phase.ENDED:
        step = decide(state)
        assert isinstance(step, Wait)
        assert step.begun


@given(SOME)
def test_the_version_is_the_place_in_the_log(happened: list[Event]) -> None:
    assert fold(*happened).memory.version == len(happened) + 1


def test_a_gap_is_an_error() -> None:
    first, _, third = records(tool(1), tool(2))
    with pytest.raises(RecordError, match="event 3 follows event 1"):
        apply(apply(None, first), third)


def test_a_log_that_does_not_begin_at_the_beginning_is_an_error() -> None:
    with pytest.raises(RecordError, match="begins with tool_result_recorded"):
        apply(None, records(tool(1))[1])


def test_steps_move_from_pending_to_current_to_completed() -> None:
    begun = fold(events.RoundStarted(round=1, prompt="first")).memory
    assert (begun.current_step, begun.pending_steps, begun.completed_steps) == (
        "round-1",
        ("critique-1", "validate-1", "audit-1"),
        (),
    )
    green = events.ValidatorsFinished(
        round=1, results=(ValidatorResult(name="tests", passed=True),)
    )
    later = fold(
        events.RoundStarted(round=1, prompt="first"),
        events.RoundFinished(round=1),
        events.StepStarted(step_id="validate-1", description="run 1 validator"),
        green,
        events.AuditStarted(round=1),
    ).memory
    assert (later.current_step, later.pending_steps) == ("audit-1", ())
    assert later.completed_steps == ("round-1", "validate-1")


def test_every_tool_result_becomes_evidence() -> None:
    state = fold(tool(1), tool(2))
    assert state.memory.evidence_refs == ("o1", "o2")
    assert state.memory.tool_result_refs == ("call_1", "call_2")
    assert state.observations == 2


def test_the_state_keeps_the_newest_references_and_counts_all() -> None:
    state = fold(*(tool(number) for number in range(1, KEPT + 51)))
    assert len(state.memory.evidence_refs) == KEPT
    assert state.memory.evidence_refs[-1] == f"o{KEPT + 50}"
    assert state.observations == KEPT + 50


def test_spending_is_counted_by_account_and_together() -> None:
    state = fold(
        events.UsageRecorded(
            account="agent",
            usage=Usage(input_tokens=10, output_tokens=2, cost_usd=0.25),
        ),
        events.UsageRecorded(
            account="judge", usage=Usage(input_tokens=5, output_tokens=1, cost_usd=0.05)
        ),
    )
    assert state.usage["agent"].tokens == 12
    assert state.memory.budget_state.token_estimate == 18
    assert state.memory.budget_state.cost_cents == pytest.approx(30.0)


def test_one_unknown_price_makes_the_sum_unknown() -> None:
    state = fold(
        events.UsageRecorded(account="agent", usage=Usage(cost_usd=0.25)),
        events.UsageRecorded(account="judge", usage=Usage(cost_usd=None)),
    )
    assert state.memory.budget_state.cost_cents is None


def test_criteria_that_the_judge_derived_stay_and_later_audits_may_only_add() -> None:
    first = events.VerdictRecorded(
        round=1, verdict=unsatisfied("more", criterion="first")
    )
    second = events.VerdictRecorded(round=2, verdict=satisfied(criterion="another"))
    assert fold(first, second, first).criteria == ("first", "another")


@pytest.mark.parametrize(
    ("decision", "stop"),
    [("approved", None), ("denied", "blocked"), ("expired", "blocked")],
)
def test_an_approval_that_is_not_given_stops(
    decision: Literal["approved", "denied", "expired"], stop: str | None
) -> None:
    state = fold(events.ApprovalRecorded(approval_id="a1", decision=decision))
    assert (state.memory.approval_refs, state.memory.stop_reason) == (("a1",), stop)


def test_the_deadline_is_part_of_the_budget() -> None:
    started = events.RunStarted(
        workspace="/w", version="0", deadline_at="2026-01-01T00:30:00+00:00"
    )
    assert fold(started).memory.budget_state.deadline_at == "2026-01-01T00:30:00+00:00"


@pytest.mark.parametrize(
    ("guarded", "labels"), [(True, ()), (False, ("unguarded answer",))]
)
def test_an_answer_that_the_agent_could_have_given_has_a_label(
    guarded: bool, labels: tuple[str, ...]
) -> None:
    state = fold(
        events.QuestionOpened(question="which?"),
        events.QuestionAnswered(
            question="which?", evidence_ref="person:1", guarded=guarded
        ),
    )
    assert state.labels == labels


def test_questions_are_opened_and_answered() -> None:
    asked = fold(events.QuestionOpened(question="which?"))
    assert asked.memory.open_questions == ("which?",)
    answered = fold(
        events.QuestionOpened(question="which?"),
        events.QuestionAnswered(question="which?", evidence_ref="person:1"),
    )
    assert answered.memory.open_questions == ()
    assert answered.memory.evidence_refs == ("person:1",)


@pytest.mark.parametrize(
    ("event", "status", "goal", "memory"),
    [
        (
            events.RunEnded(stop_reason=StopReason.SATISFIED, message="r"),
            GoalStatus.COMPLETE,
            "completed",
            "success",
        ),
        (
            events.RunEnded(stop_reason=StopReason.TIMEOUT, message="x"),
            GoalStatus.CAPPED,
            "blocked",
            "budget_exhausted",
        ),
        (
            events.RunEnded(stop_reason=StopReason.INTERRUPTED, message="x", signal=2),
            GoalStatus.CANCELLED,
            "cancelled",
            "cancelled",
        ),
        (
            events.RunEnded(stop_reason=StopReason.JUDGE_FAILED, message="x"),
            GoalStatus.FAILED,
            "failed",
            "failed",
        ),
        (
            events.RunEnded(stop_reason=StopReason.DENIED),
            GoalStatus.BLOCKED,
            "blocked",
            "blocked",
        ),
        (
            events.RunEnded(stop_reason=StopReason.APPROVAL_REQUIRED),
            GoalStatus.BLOCKED,
            "waiting_for_approval",
            "approval_required",
        ),
    ],
)
def test_an_ending_sets_the_words_of_goals_and_state(
    event: Event, status: GoalStatus, goal: str, memory: str
) -> None:
    state = fold(event)
    assert (state.status, state.goal.status, state.memory.stop_reason) == (
        status,
        goal,
        memory,
    )


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        (StopReason.APPROVAL_REQUIRED, True),
        (StopReason.INTERRUPTED, True),
        # The run cannot go on, so a decision would have no effect.
        (StopReason.CANCELLED, False),
    ],
)
def test_a_final_end_withdraws_what_waits_for_a_person(
    reason: StopReason, waits: bool
) -> None:
    asked = events.ApprovalRequested(
        approval_id="a1", kind="shell", action="x", rule="r"
    )
    state = fold(asked, events.RunEnded(stop_reason=reason))
    assert bool(state.waiting) is waits


STATUSES = {
    GoalStatus.COMPLETE: {"satisfied"},
    GoalStatus.CAPPED: {"max_iterations", "timeout", "budget_exhausted"},
    GoalStatus.BLOCKED: {
        "approval_required",
        "denied",
        "question_open",
        "impossible",
        "stalled",
        "evidence_unstable",
    },
    GoalStatus.CANCELLED: {"cancelled", "interrupted"},
    GoalStatus.FAILED: {
        "authentication",
        "model_not_found",
        "agent_failed",
        "judge_failed",
        "validator_missing",
        "environment_failed",
        "workspace_failed",
        "baseline_green",
        "internal_error",
    },
}


def test_every_stop_reason_has_one_status() -> None:
    assert {
        status: {str(reason) for reason in StopReason if reason.status is status}
        for status in STATUSES
    } == STATUSES


@pytest.mark.parametrize("kind", ["transport", "authentication"])
def test_a_round_whose_judge_cannot_be_reached_counts(
    kind: Literal["transport", "authentication"],
) -> None:
    state = fold(
        events.RoundStarted(round=1, prompt="first"),
        events.AuditStarted(round=1),
        events.AuditFailed(round=1, kind=kind, detail="no answer"),
        events.RunEnded(stop_reason=StopReason.JUDGE_FAILED, message="no answer"),
    )
    assert (
        state.iterations,
        state.memory.budget_state.iteration_count,
        state.verdict,
    ) == (1, 1, None)
    assert [
        (attempt.attempt, attempt.passed, attempt.feedback)
        for attempt in state.attempts
    ] == [(1, False, None)]


def test_a_round_whose_judge_is_asked_again_is_counted_by_its_verdict_alone() -> None:
    unreadable = events.AuditFailed(round=1, kind="parse", detail="no JSON")
    started = (
        events.RoundStarted(round=1, prompt="first"),
        events.AuditStarted(round=1),
        unreadable,
    )
    state = fold(*started)
    assert (state.iterations, state.attempts) == (0, ())
    assert (
        fold(
            *started, events.VerdictRecorded(round=1, verdict=unsatisfied("more"))
        ).iterations
        == 1
    )


CHECKED = events.ValidatorsFinished(round=1, results=(RED,))
ROUND = (events.RoundStarted(round=1, prompt="first"), events.RoundFinished(round=1))
NOT_YET = events.VerdictRecorded(round=1, verdict=unsatisfied("more"))


@pytest.mark.parametrize(
    "checks",
    [
        pytest.param((CHECKED, CHECKED), id="checked twice"),
        pytest.param(
            (events.ValidatorsFinished(round=1, results=(GREEN,)), NOT_YET, NOT_YET),
            id="audited twice",
        ),
        pytest.param(
            (CHECKED, events.WorkspaceChanged(paths=("a",), snapshot=OTHER), CHECKED),
            id="checked after a change",
        ),
        pytest.param(
            (
                CHECKED,
                events.RunResumed(
                    plan=CREATED.plan, version="0", changed=("a",), snapshot=OTHER
                ),
                CHECKED,
            ),
            id="checked by two processes",
        ),
        pytest.param(
            (events.AuditFailed(round=1, kind="transport", detail="x"), NOT_YET),
            id="a judge that was away and came back",
        ),
    ],
)
def test_a_round_counts_once_however_often_it_is_checked(
    checks: tuple[Event, ...],
) -> None:
    once = fold(*ROUND, *checks)
    assert (once.iterations, [attempt.attempt for attempt in once.attempts]) == (1, [1])
    second = events.ValidatorsFinished(round=2, results=(RED,))
    assert (
        fold(
            *ROUND, *checks, events.RoundStarted(round=2, prompt="retry"), second
        ).iterations
        == 2
    )


def test_the_last_check_of_a_round_says_whether_it_passed() -> None:
    plan = events.RunRules(validators=("tests",))
    green = events.ValidatorsFinished(round=1, results=(GREEN,))
    for checks, passed in (((green, CHECKED), False), ((CHECKED, green), True)):
        state = state_after(plan, *ROUND, *checks)
        assert [attempt.passed for attempt in state.attempts] == [passed]


def test_a_baseline_counts_only_if_it_decides_the_run() -> None:
    alone, judged = (
        events.RunRules(validators=("tests",)),
        events.RunRules(validators=("tests",), has_judge=True),
    )
    green = events.BaselineTaken(standing="green", results=(GREEN,))
    assert state_after(alone, green).iterations == 1
    assert (
        state_after(
            alone, events.BaselineTaken(standing="red", results=(RED,))
        ).iterations
        == 0
    )
    refused = events.VerdictRecorded(round=0, verdict=unsatisfied("more"))
    assert state_after(judged, green, refused).iterations == 0
    assert (
        state_after(
            judged, green, events.AuditFailed(round=0, kind="transport", detail="x")
        ).iterations
        == 0
    )
    accepted = events.VerdictRecorded(round=0, verdict=satisfied())
    assert state_after(judged, green, accepted).iterations == 1
    after = state_after(judged, green, refused, *ROUND, CHECKED)
    assert [(attempt.attempt, attempt.passed) for attempt in after.attempts] == [
        (1, False)
    ]
