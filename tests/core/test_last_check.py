"""What follows when a limit cuts the agent's turn: one check of what is there, then the end."""

from __future__ import annotations

import pytest

from goalrunner.core.decision import (
    AskApproval,
    AskJudge,
    RunRound,
    Step,
    Validate,
    decide,
)
from goalrunner.core.events import (
    ApprovalRecorded,
    ApprovalRequested,
    AuditStarted,
    ChangedChecks,
    Event,
    LimitReached,
    RoundFinished,
    RoundStarted,
    RunEnded,
    RunResumed,
    RunRules,
    UsageRecorded,
    ValidatorsFinished,
    VerdictRecorded,
)
from goalrunner.core.goal_tables import Approvals
from goalrunner.core.labels import Label
from goalrunner.core.outcome import StopReason, Usage
from goalrunner.core.state_outcome import outcome_of
from goalrunner.core.verdict import ValidatorResult
from goalrunner.testing import satisfied, unsatisfied
from tests.support.folding import state_after

BOTH = RunRules(validators=("tests",), has_judge=True, tokens=100)
ALONE = RunRules(validators=("tests",))
JUDGE = RunRules(has_judge=True)
REACHED = RunEnded(
    stop_reason=StopReason.TIMEOUT, message="the time limit of 30 s was reached"
)
CUT = (
    RoundStarted(round=1, prompt="first"),
    RoundFinished(round=1, reason="interrupted", ending="the time limit of 30 s"),
    LimitReached(end=REACHED),
)
SPENT = UsageRecorded(
    account="agent",
    usage=Usage(calls=1, input_tokens=100, output_tokens=1, cost_usd=0.0),
)


def checked(
    *,
    passed: bool = True,
    changed: ChangedChecks | None = None,
    leaked: tuple[str, ...] = (),
) -> Event:
    result = ValidatorResult(
        name="tests", passed=passed, summary="exit 1", feedback="boom"
    )
    return ValidatorsFinished(
        round=1, results=(result,), changed_checks=changed, leaked=leaked
    )


def verdict(*, complete: bool) -> tuple[Event, Event]:
    said = satisfied("it works") if complete else unsatisfied("more")
    return AuditStarted(round=1), VerdictRecorded(round=1, verdict=said)


CHANGED = ChangedChecks(key="k", paths=("Makefile",), results=())


@pytest.mark.parametrize(
    ("plan", "happened", "step"),
    [
        (ALONE, (), Validate(1)),
        (BOTH, (), Validate(1)),
        (JUDGE, (), AskJudge(1)),
        (ALONE, (checked(passed=False),), REACHED),
        (
            ALONE,
            (checked(),),
            RunEnded(stop_reason=StopReason.SATISFIED, message="validators of round 1"),
        ),
        (BOTH, (checked(),), AskJudge(1)),
        (BOTH, (checked(passed=False),), REACHED),
        (BOTH, (SPENT, checked()), REACHED),
        (BOTH, (checked(), *verdict(complete=False)), REACHED),
        (ALONE, (checked(leaked=("a.py",)),), REACHED),
    ],
)
def test_what_a_limit_cut_is_checked_once(
    plan: RunRules, happened: tuple[Event, ...], step: Step
) -> None:
    assert decide(state_after(plan, *CUT, *happened)) == step


def test_a_review_by_a_person_is_named_at_the_end() -> None:
    step = decide(state_after(ALONE, *CUT, checked(changed=CHANGED)))
    assert isinstance(step, RunEnded)
    assert step.stop_reason is StopReason.TIMEOUT
    assert step.message.startswith(
        f"{REACHED.message}\nthe validators pass, but this has to be reviewed: checks changed"
    )


def test_a_refused_completion_begins_no_round_after_a_limit() -> None:
    guarded = ALONE.model_copy(
        update={"approvals": Approvals(require=("complete",), on_deny="continue")}
    )
    asked = ApprovalRequested(
        approval_id="a1", kind="complete", action="complete: x", rule="r"
    )
    denied = ApprovalRecorded(
        approval_id="a1", decision="denied", by="ann", reason="no"
    )
    assert isinstance(decide(state_after(guarded, *CUT, checked())), AskApproval)
    assert decide(state_after(guarded, *CUT, checked(), asked, denied)) == REACHED


def test_a_run_that_is_resumed_after_a_limit_begins_a_round_whose_prompt_names_the_cut() -> (
    None
):
    ended = state_after(ALONE, *CUT, checked(passed=False), REACHED)
    again = state_after(
        ALONE, *CUT, checked(passed=False), REACHED, RunResumed(plan=ALONE, version="1")
    )
    assert (ended.status, again.limit) == ("capped", None)
    step = decide(again)
    assert isinstance(step, RunRound)
    assert (step.kind, step.round, step.ending) == (
        "retry",
        2,
        "the time limit of 30 s",
    )


def test_green_validators_without_an_audit_have_a_label_until_the_judge_is_asked() -> (
    None
):
    events = (*CUT, SPENT, checked(), REACHED)
    assert outcome_of(state_after(BOTH, *events)).labels == (Label.NOT_AUDITED,)
    more = BOTH.model_copy(update={"tokens": 1_000})
    resumed = state_after(BOTH, *events, RunResumed(plan=more, version="1"))
    assert (decide(resumed), outcome_of(resumed).labels) == (AskJudge(1), ())
    assert (
        outcome_of(state_after(BOTH, *CUT, checked(passed=False), REACHED)).labels == ()
    )
