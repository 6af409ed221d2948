"""What the loop decides, state by state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.budgets import shortfall
from goalrunner.core.decision import AskJudge, RunRound, Validate, decide, proven
from goalrunner.core.endings import end_by_error, out_of_budget, timed_out
from goalrunner.core.errors import (
    AuthenticationFailed,
    ModelNotFound,
    ProviderUnavailable,
)
from goalrunner.core.events import (
    AuditFailed,
    AuditStarted,
    Event,
    RoundFinished,
    RoundStarted,
    RunEnded,
    RunResumed,
    RunRules,
    RunStarted,
    UsageRecorded,
    ValidatorsFinished,
    VerdictRecorded,
)
from goalrunner.core.outcome import StopReason, Usage
from goalrunner.core.run_state import Stall
from goalrunner.core.verdict import (
    Citation,
    CriterionVerdict,
    GoalVerdict,
    UnreadAnswer,
    ValidatorResult,
)
from goalrunner.engine.prompts import interruption_text
from goalrunner.testing import satisfied, unsatisfied
from tests.support.folding import state_after


def worked(number: int = 1) -> tuple[Event, Event]:
    """A round that the agent finished."""
    return RoundStarted(round=number, prompt="first"), RoundFinished(round=number)


def checked(number: int = 1, **results: bool) -> ValidatorsFinished:
    """Validators by name, green or red."""
    each = [
        ValidatorResult(name=name, passed=passed, summary="exit 1", feedback="boom")
        for name, passed in results.items()
    ]
    return ValidatorsFinished(round=number, results=tuple(each))


BOTH = RunRules(validators=("tests",), has_judge=True, max_iterations=2)
ALONE = RunRules(validators=("tests",), max_iterations=2)


def test_a_new_run_begins_with_the_first_prompt() -> None:
    assert decide(state_after(BOTH)) == RunRound("first", 1)


def test_validators_come_before_the_judge() -> None:
    assert decide(state_after(BOTH, *worked())) == Validate(1)


def test_without_validators_the_judge_is_asked_at_once() -> None:
    assert decide(state_after(RunRules(has_judge=True), *worked())) == AskJudge(1)


def test_a_red_validator_skips_the_judge_and_its_output_is_the_feedback() -> None:
    state = state_after(BOTH, *worked(), checked(tests=False))
    assert decide(state) == RunRound("retry", 2, "validator tests: exit 1\nboom")
    assert state.iterations == 1


def test_the_agent_reads_which_protected_files_validators_saw_in_their_original_state() -> (
    None
):
    changed = ("conftest.py (new; new configuration of existing checks)",)
    note = (
        "The validators ran with the original content of these files, not as you changed them:\n- "
        + changed[0]
    )
    ran = checked(tests=False).model_copy(update={"protected_changes": changed})
    assert decide(state_after(BOTH, *worked(), ran)) == RunRound(
        "retry", 2, f"validator tests: exit 1\nboom\n\n{note}"
    )
    green = checked(tests=True).model_copy(update={"protected_changes": changed})
    more = VerdictRecorded(round=1, verdict=unsatisfied("show parse('')"))
    judged = state_after(BOTH, *worked(), green, AuditStarted(round=1), more)
    assert decide(judged) == RunRound("retry", 2, f"show parse('')\n\n{note}")


def test_green_validators_lead_to_the_judge() -> None:
    state = state_after(BOTH, *worked(), checked(tests=True))
    assert decide(state) == AskJudge(1)
    assert state.iterations == 0


def test_green_validators_without_a_judge_complete() -> None:
    state = state_after(ALONE, *worked(), checked(tests=True))
    assert decide(state) == RunEnded(
        stop_reason=StopReason.SATISFIED, message="validators of round 1"
    )


def test_the_judges_missing_goes_back() -> None:
    verdict = VerdictRecorded(round=1, verdict=unsatisfied("show parse('')"))
    state = state_after(
        BOTH, *worked(), checked(tests=True), AuditStarted(round=1), verdict
    )
    assert decide(state) == RunRound("retry", 2, "show parse('')")


FALLBACK = GoalVerdict(
    score=0.0, complete=False, source="fallback", missing="no answer"
)


def unread(number: int, audits: int) -> list[Event]:
    """Audits of one round that gave no answer that can be read."""
    failure = AuditFailed(
        round=number,
        kind="parse",
        detail="The answer is no JSON.",
        answer="It looks\nfine to me.",
    )
    audit = (
        AuditStarted(round=number),
        failure,
        VerdictRecorded(round=number, verdict=FALLBACK),
    )
    return [*worked(number), checked(number, tests=True), *(audit * audits)]


def test_an_unreadable_judge_is_asked_again_alone() -> None:
    state = state_after(BOTH, *unread(1, 2))
    assert decide(state) == AskJudge(1)
    assert (state.iterations, len(state.attempts), state.stall) == (1, 1, Stall())
    assert state.unread_answer == UnreadAnswer(
        reason="The answer is no JSON.", text="It looks\nfine to me."
    )


def test_a_budget_that_is_spent_ends_the_run_before_the_judge_is_asked_again() -> None:
    plan = BOTH.model_copy(update={"tokens": 10})
    used = UsageRecorded(account="judge", usage=Usage(input_tokens=10, calls=1))
    ended = decide(state_after(plan, *unread(1, 1), used))
    assert isinstance(ended, RunEnded)
    assert ended.stop_reason is StopReason.BUDGET_EXHAUSTED


def test_after_a_readable_answer_the_judges_missing_goes_back() -> None:
    verdict = VerdictRecorded(round=1, verdict=unsatisfied("show parse('')"))
    state = state_after(BOTH, *unread(1, 2), AuditStarted(round=1), verdict)
    assert decide(state) == RunRound("retry", 2, "show parse('')")
    assert state.unread_answer is None
    assert state.unread == 0


def test_a_judge_whose_answers_are_unreadable_ends_the_run_with_what_it_said() -> None:
    plan = RunRules(validators=("tests",), has_judge=True)
    started = RunStarted(workspace="/w", version="1", models={"judge": "tiny/judge"})
    assert decide(state_after(plan, started, *unread(1, 3))) == RunEnded(
        stop_reason=StopReason.JUDGE_FAILED,
        message="3 audits of round 1 by tiny/judge ended without a readable answer\n"
        "the judge's answer could not be read: The answer is no JSON.\n"
        'it said: "It looks fine to me."\n'
        "name a judge that answers in JSON: --judge PROVIDER/MODEL, or [judge] model",
    )


def test_a_resumed_run_asks_an_unreadable_judge_again_and_not_the_agent() -> None:
    resumed = RunResumed(plan=BOTH, version="1")
    state = state_after(
        BOTH, *unread(1, 3), RunEnded(stop_reason=StopReason.JUDGE_FAILED), resumed
    )
    assert decide(state) == AskJudge(1)
    assert state.unread == 0
    changed = resumed.model_copy(update={"changed": ("src/a.py",)})
    checked_again = state_after(BOTH, *unread(1, 1), changed)
    assert decide(checked_again) == Validate(1)


def test_calls_of_a_lost_round_are_in_the_next_prompt_and_in_a_label() -> None:
    calls = tuple(f"shell: make step{number}" for number in range(7))
    resumed = RunResumed(plan=BOTH, version="1", abandoned=calls[:1])
    again = RunResumed(plan=BOTH, version="1", abandoned=calls[1:])
    state = state_after(BOTH, RoundStarted(round=1, prompt="first"), resumed, again)
    brief = decide(state)
    assert isinstance(brief, RunRound)
    prompt = interruption_text(brief.interruption)
    assert [call in prompt for call in calls] == [True] * len(calls)
    assert "The owner says" not in prompt
    assert state.labels[0] == "unknown effects: shell: make step0"
    assert "shell: make step1" in state.labels[1]


def test_a_proven_verdict_completes() -> None:
    state = state_after(
        BOTH,
        *worked(),
        checked(tests=True),
        VerdictRecorded(round=1, verdict=satisfied()),
    )
    assert decide(state) == RunEnded(
        stop_reason=StopReason.SATISFIED, message="verdict of round 1"
    )


def test_the_cap_counts_decided_rounds() -> None:
    state = state_after(
        BOTH, *worked(), checked(tests=False), *worked(2), checked(2, tests=False)
    )
    assert decide(state) == RunEnded(
        stop_reason=StopReason.MAX_ITERATIONS, message="not complete after 2 rounds"
    )


def test_a_completion_in_the_last_round_counts() -> None:
    state = state_after(
        ALONE, *worked(), checked(tests=False), *worked(2), checked(2, tests=True)
    )
    assert decide(state) == RunEnded(
        stop_reason=StopReason.SATISFIED, message="validators of round 2"
    )


def test_without_a_cap_the_loop_goes_on() -> None:
    state = state_after(
        RunRules(validators=("tests",)), *worked(), checked(tests=False)
    )
    assert isinstance(decide(state), RunRound)


def test_a_spent_budget_stops_before_the_next_model_call_but_not_the_free_validators() -> (
    None
):
    plan = RunRules(validators=("tests",), has_judge=True, tokens=100)
    spent = UsageRecorded(
        account="agent", usage=Usage(input_tokens=90, output_tokens=10)
    )
    state = state_after(
        plan, RoundStarted(round=1, prompt="first"), spent, RoundFinished(round=1)
    )
    assert decide(state) == Validate(1)
    green = state_after(
        plan,
        RoundStarted(round=1, prompt="first"),
        spent,
        RoundFinished(round=1),
        checked(tests=True),
    )
    ended = decide(green)
    assert ended == RunEnded(
        stop_reason=StopReason.BUDGET_EXHAUSTED, message="100 of 100 tokens are spent"
    )


def test_a_proof_held_completes_although_the_budget_is_spent() -> None:
    plan = RunRules(validators=("tests",), tokens=10)
    spent = UsageRecorded(
        account="agent", usage=Usage(input_tokens=90, output_tokens=10)
    )
    state = state_after(
        plan,
        RoundStarted(round=1, prompt="first"),
        spent,
        RoundFinished(round=1),
        checked(tests=True),
    )
    assert decide(state) == RunEnded(
        stop_reason=StopReason.SATISFIED, message="validators of round 1"
    )


@pytest.mark.parametrize(("tokens", "stops"), [(101, False), (100, True), (99, True)])
def test_the_token_budget_is_exact_at_its_boundary(tokens: int, stops: bool) -> None:
    spent = UsageRecorded(
        account="judge", usage=Usage(input_tokens=60, output_tokens=40)
    )
    assert (
        bool(shortfall(state_after(RunRules(has_judge=True, tokens=tokens), spent)))
        is stops
    )


def test_an_unknown_price_never_counts_as_free() -> None:
    unknown = UsageRecorded(account="agent", usage=Usage(input_tokens=1, cost_usd=None))
    found = shortfall(state_after(RunRules(has_judge=True, cost_usd=5.0), unknown))
    assert found is not None
    assert "is unknown" in found.words
    assert shortfall(state_after(RunRules(has_judge=True), unknown)) is None


@pytest.mark.parametrize("name", ["tokens", "cost_usd"])
@pytest.mark.parametrize("unenforced", [False, True])
def test_what_an_agent_did_not_tell_never_counts_as_free(
    name: BudgetName, unenforced: bool
) -> None:
    limits = {"tokens": 100} if name == "tokens" else {"cost_usd": 1.0}
    plan = RunRules.model_validate(
        {"has_judge": True, **limits, "unenforced": (name,) if unenforced else ()}
    )
    started = RunStarted(
        workspace="/w", version="1", agent_command="x", models={"agent": "x"}
    )
    told = UsageRecorded(
        account="agent", usage=Usage(input_tokens=40, cost_usd=0.5, calls=1)
    )
    nothing = UsageRecorded(account="agent", usage=Usage.unknown())
    partly = state_after(plan, started, told, nothing)
    found = shortfall(partly)
    assert (found is None) is unenforced
    if found is not None:
        assert (found.budget, found.unknown) == (name, True)
        assert "the usage of a call of x" in found.words
        assert f"--allow-unenforced {name} " in out_of_budget(partly).message
    spent = shortfall(state_after(plan, started, told, nothing, told, told))
    assert spent is not None
    assert (spent.unknown, spent.words.endswith("are spent")) == (False, True)


def test_an_ended_run_stays_ended() -> None:
    ended = timed_out(state_after(RunRules(has_judge=True, timeout=5.0)))
    assert ended == RunEnded(
        stop_reason=StopReason.TIMEOUT, message="the time limit of 5 s was reached"
    )


@pytest.mark.parametrize(
    ("error", "judging", "reason"),
    [
        (AuthenticationFailed("no key"), False, StopReason.AUTHENTICATION),
        (ModelNotFound("no model"), True, StopReason.MODEL_NOT_FOUND),
        (ProviderUnavailable("503"), False, StopReason.AGENT_FAILED),
        (ProviderUnavailable("503"), True, StopReason.JUDGE_FAILED),
    ],
)
def test_a_failure_says_who_failed(
    error: Exception, judging: bool, reason: StopReason
) -> None:
    happened: tuple[Event, ...] = (
        (AuditStarted(round=1),)
        if judging
        else (RoundStarted(round=1, prompt="first"),)
    )
    assert isinstance(error, AuthenticationFailed | ModelNotFound | ProviderUnavailable)
    assert (
        end_by_error(
            state_after(RunRules(has_judge=True), *happened), error
        ).stop_reason
        is reason
    )


_CRITERIA = st.lists(
    st.builds(
        CriterionVerdict,
        criterion=st.just("c"),
        satisfied=st.booleans(),
        evidence=st.sampled_from([(), (Citation(observation="o1", quote="q"),)]),
    ),
    max_size=3,
).map(tuple)


@given(
    criteria=_CRITERIA,
    score=st.floats(0, 1),
    minimum=st.floats(0, 1),
    source=st.sampled_from(["judge", "validators", "fallback"]),
    green=st.booleans(),
)
def test_no_verdict_completes_without_every_part_of_the_proof(
    criteria: tuple[CriterionVerdict, ...],
    score: float,
    minimum: float,
    source: str,
    green: bool,
) -> None:
    whole = all(item.satisfied for item in criteria)
    verdict = GoalVerdict.model_validate(
        {"score": score, "complete": whole, "criteria": criteria, "source": source},
        strict=False,
    )
    plan = RunRules(validators=("tests",), has_judge=True, minimum_score=minimum)
    state = state_after(
        plan, *worked(), checked(tests=green), VerdictRecorded(round=1, verdict=verdict)
    )
    evidenced = bool(criteria) and all(
        item.satisfied and item.evidence for item in criteria
    )
    assert proven(state) is (
        green and source == "judge" and score >= minimum and evidenced
    )


def test_a_validator_that_did_not_run_is_not_green() -> None:
    plan = RunRules(validators=("tests", "lint"))
    assert not proven(state_after(plan, *worked(), checked(tests=True)))


def test_a_run_without_validator_and_judge_is_never_complete() -> None:
    assert not proven(
        state_after(
            RunRules(), *worked(), VerdictRecorded(round=1, verdict=satisfied())
        )
    )
