"""Decisions on what the check environment says: leaks, changed checks, hidden validators, refusals, labels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core import events
from goalrunner.core.decision import (
    LEAKS,
    AskApproval,
    AskJudge,
    ReviewChecks,
    RunRound,
    TakeBaseline,
    Validate,
    decide,
    proven,
)
from goalrunner.core.endings import awaiting_approval
from goalrunner.core.events import Event, RunEnded, RunRules
from goalrunner.core.goal_tables import Approvals
from goalrunner.core.observation import Observation, Snapshot
from goalrunner.core.outcome import GoalStatus, StopReason
from goalrunner.core.run_summary import RunSummary
from goalrunner.core.state_outcome import outcome_of
from goalrunner.core.verdict import HIDDEN, ValidatorResult
from goalrunner.testing import satisfied, unsatisfied
from tests.support.folding import state_after

ALONE = RunRules(validators=("tests",), max_iterations=5)
JUDGED = RunRules(validators=("tests",), has_judge=True, max_iterations=5)
COMPLETE = RunEnded(stop_reason=StopReason.SATISFIED, message="validators of round 1")
PATHS = ("tests/test_a.py", "pytest.ini")


def snapshot(name: str) -> Snapshot:
    return Snapshot(id=name * 64, tree=name * 64)


def worked(number: int = 1, name: str = "a") -> tuple[Event, Event]:
    prompt = events.RoundStarted(
        round=number, prompt="first" if number == 1 else "retry"
    )
    return prompt, events.RoundFinished(round=number, snapshot=snapshot(name))


def result(
    name: str = "tests", *, passed: bool = True, hidden: bool = False
) -> ValidatorResult:
    return ValidatorResult(
        name=name, passed=passed, summary="exit 1", feedback="boom", hidden=hidden
    )


def checked(
    number: int = 1, *, passed: bool = True, **more: Any
) -> events.ValidatorsFinished:
    return events.ValidatorsFinished.model_validate(
        {"round": number, "results": (result(passed=passed),), **more}, strict=False
    )


def changed(key: str = "k1") -> events.ChangedChecks:
    return events.ChangedChecks(key=key, paths=PATHS, results=(result(),))


def tampered(number: int = 1, key: str = "k1") -> events.ValidatorsFinished:
    """Red with the originals, green with the agent's versions."""
    return checked(number, passed=False, changed_checks=changed(key), differing=PATHS)


def asked(number: int = 1, key: str = "k1") -> events.ApprovalRequested:
    return events.ApprovalRequested(
        approval_id=f"a{number}", kind="checks", action="x", rule="r", snapshot=key
    )


def said(number: int, decision: str, **more: object) -> events.ApprovalRecorded:
    return events.ApprovalRecorded.model_validate(
        {"approval_id": f"a{number}", "decision": decision, **more}
    )


RESUMED = events.RunResumed(plan=ALONE, version="0")
WAITED = events.RunEnded(message="a1 waits", stop_reason=StopReason.APPROVAL_REQUIRED)


# -- a workspace that changes while it is checked ------------------------------------------------------------------------


def test_green_results_of_a_workspace_that_changed_prove_nothing() -> None:
    leaked = state_after(JUDGED, *worked(), checked(leaked=("a.py",)))
    assert not leaked.validators_green
    assert decide(leaked) == Validate(1)


def test_leaks_are_counted_by_round() -> None:
    leak = checked(leaked=("a.py",))
    red = state_after(ALONE, *worked(), leak, checked(passed=False), *worked(2))
    assert (red.leaked, red.leaks) == ((), 0)
    assert decide(
        state_after(ALONE, *worked(), leak, checked(passed=False), *worked(2), leak)
    ) == Validate(2)


def test_a_change_after_the_verdict_asks_validators_and_judge_again() -> None:
    moved = events.WorkspaceChanged(paths=("a.py",), snapshot=snapshot("b"))
    verdict = events.VerdictRecorded(round=1, verdict=satisfied())
    before = (*worked(), checked(), verdict)
    assert decide(state_after(JUDGED, *before, moved)) == Validate(1)
    assert decide(state_after(JUDGED, *before, moved, checked())) == AskJudge(1)
    done = decide(state_after(JUDGED, *before, moved, checked(), verdict))
    assert isinstance(done, RunEnded)
    assert done.stop_reason is StopReason.SATISFIED


def test_without_validators_a_change_before_completion_asks_the_judge_again() -> None:
    plan = RunRules(has_judge=True, max_iterations=5)
    moved = events.WorkspaceChanged(paths=("a.py",), snapshot=snapshot("b"))
    verdict = events.VerdictRecorded(round=1, verdict=satisfied())
    assert decide(state_after(plan, *worked(), verdict, moved)) == AskJudge(1)
    done = decide(state_after(plan, *worked(), verdict, moved, verdict))
    assert isinstance(done, RunEnded)
    assert done.stop_reason is StopReason.SATISFIED


@pytest.mark.parametrize("has_judge", [False, True])
def test_a_change_after_a_green_baseline_takes_the_baseline_again_and_not_for_ever(
    has_judge: bool,
) -> None:
    plan = RunRules(validators=("tests",), has_judge=has_judge, takes_baseline=True)
    baseline = events.BaselineTaken(standing="green", results=(result(),))
    verdict = (
        (events.VerdictRecorded(round=0, verdict=satisfied()),) if has_judge else ()
    )
    moved = events.WorkspaceChanged(paths=("a.py",), snapshot=snapshot("b"))
    once = (baseline, *verdict, moved)
    assert decide(state_after(plan, *once)) == TakeBaseline()
    done = decide(state_after(plan, *once, baseline, *verdict))
    assert isinstance(done, RunEnded)
    assert (done.stop_reason, done.message.endswith("of the baseline")) == (
        StopReason.SATISFIED,
        True,
    )
    stopped = decide(state_after(plan, *once, *once))
    assert isinstance(stopped, RunEnded)
    assert stopped.stop_reason is StopReason.EVIDENCE_UNSTABLE


@pytest.mark.parametrize("has_judge", [False, True])
def test_a_green_baseline_decides_nothing_where_a_round_is_needed(
    has_judge: bool,
) -> None:
    plan = RunRules(
        validators=("tests",),
        has_judge=has_judge,
        takes_baseline=True,
        needs_round=True,
    )
    state = state_after(
        plan, events.BaselineTaken(standing="green", results=(result(),))
    )
    step = decide(state)
    assert isinstance(step, RunRound)
    assert (step.kind, step.round, state.iterations) == ("first", 1, 0)


def test_a_run_that_ended_for_leaks_checks_the_workspace_again_when_it_is_resumed() -> (
    None
):
    ended = events.RunEnded(message="x", stop_reason=StopReason.EVIDENCE_UNSTABLE)
    leak = checked(leaked=("a.py",))
    state = state_after(ALONE, *worked(), leak, leak, ended, RESUMED)
    assert decide(state) == Validate(1)
    assert decide(
        state_after(ALONE, *worked(), leak, leak, ended, RESUMED, leak)
    ) == Validate(1)
    assert (
        decide(state_after(ALONE, *worked(), leak, leak, ended, RESUMED, checked()))
        == COMPLETE
    )


# -- the agent's versions of the checks ----------------------------------------------------------------------------------


def test_checks_that_are_green_only_as_the_agent_changed_them_wait_for_a_person() -> (
    None
):
    state = state_after(ALONE, *worked(), tampered())
    assert decide(state) == AskApproval(
        "checks changed: tests/test_a.py, pytest.ini",
        "the validators pass only with the agent's versions of these files",
        "checks",
    )
    assert not proven(state)
    assert [(attempt.attempt, attempt.passed) for attempt in state.attempts] == [
        (1, False)
    ]


def test_what_a_person_accepts_counts_is_labelled_and_is_known_by_its_key() -> None:
    state = state_after(
        ALONE, *worked(), tampered(), asked(), said(1, "approved", by="ada")
    )
    assert decide(state) == COMPLETE
    assert state.approved_checks == {"k1": ""}
    assert [(attempt.attempt, attempt.passed) for attempt in state.attempts] == [
        (1, True)
    ]
    assert outcome_of(state).labels == ("checks changed: tests/test_a.py, pytest.ini",)
    assert RunSummary.of(state).labels == [
        "checks changed: tests/test_a.py, pytest.ini"
    ]


@pytest.mark.parametrize("on_deny", ["stop", "continue"])
def test_what_a_person_denies_is_red_and_the_run_goes_on(on_deny: str) -> None:
    plan = ALONE.model_copy(
        update={"approvals": Approvals.model_validate({"on_deny": on_deny})}
    )
    state = state_after(
        plan, *worked(), tampered(), asked(), said(1, "denied", reason="keep the case")
    )
    step = decide(state)
    assert isinstance(step, RunRound)
    assert step == RunRound(
        "retry",
        2,
        "validator tests: exit 1\nboom\n\n"
        "Your changes to tests/test_a.py, pytest.ini were not accepted (keep the case).",
    )
    assert (state.approved_checks, state.memory.stop_reason) == ({}, None)
    assert [(attempt.attempt, attempt.passed) for attempt in state.attempts] == [
        (1, False)
    ]


def test_a_question_that_expires_is_red_and_asked_again_in_a_later_round() -> None:
    expired = (*worked(), tampered(), asked(), said(1, "expired"))
    step = decide(state_after(ALONE, *expired))
    assert isinstance(step, RunRound)
    assert "were not accepted." in (step.feedback or "")
    assert isinstance(
        decide(state_after(ALONE, *expired, *worked(2), tampered(2))), AskApproval
    )


def test_a_denial_holds_for_the_same_versions_and_for_no_others() -> None:
    denied = (*worked(), tampered(), asked(), said(1, "denied", reason="no"))
    same = state_after(ALONE, *denied, *worked(2), tampered(2))
    step = decide(same)
    assert isinstance(step, RunRound)
    assert "were not accepted (no)" in (step.feedback or "")
    assert same.iterations == 2
    assert isinstance(
        decide(state_after(ALONE, *denied, *worked(2), tampered(2, "k2"))), AskApproval
    )


def test_a_denied_agent_that_changes_nothing_stalls() -> None:
    plan = ALONE.model_copy(update={"stall_rounds": 1})
    denied = (*worked(), tampered(), asked(), said(1, "denied"))
    state = state_after(plan, *denied, *worked(2), tampered(2), *worked(3), tampered(3))
    step = decide(state)
    assert isinstance(step, RunEnded)
    assert step.stop_reason is StopReason.STALLED


def test_an_approval_counts_for_its_key_alone() -> None:
    state = state_after(
        ALONE, *worked(), tampered(key="k2"), asked(1, "k1"), said(1, "approved")
    )
    assert isinstance(decide(state), AskApproval)
    assert not proven(state)
    completion = events.ApprovalRequested(
        approval_id="a1", kind="complete", action="x", rule="r", snapshot="k1"
    )
    other = state_after(ALONE, *worked(), tampered(), completion, said(1, "approved"))
    assert isinstance(decide(other), AskApproval)


def test_with_a_judge_accepted_checks_run_again_and_lead_to_the_audit() -> None:
    accepted = (*worked(), tampered(), asked(), said(1, "approved"))
    assert decide(state_after(JUDGED, *accepted)) == Validate(1)
    before = (*accepted, checked(labels=("checks changed: tests/test_a.py",)))
    state = state_after(JUDGED, *before)
    assert decide(state) == AskJudge(1)
    assert not proven(state)
    done = state_after(
        JUDGED, *before, events.VerdictRecorded(round=1, verdict=satisfied())
    )
    assert decide(done) == RunEnded(
        stop_reason=StopReason.SATISFIED, message="verdict of round 1"
    )
    assert [(attempt.attempt, attempt.passed) for attempt in done.attempts] == [
        (1, True)
    ]
    more = state_after(
        JUDGED, *before, events.VerdictRecorded(round=1, verdict=unsatisfied("more"))
    )
    assert decide(more) == RunRound("retry", 2, "more")
    assert more.iterations == 1


def test_with_a_judge_denied_checks_ask_no_judge() -> None:
    step = decide(
        state_after(JUDGED, *worked(), tampered(), asked(), said(1, "denied"))
    )
    assert isinstance(step, RunRound)
    assert "were not accepted." in (step.feedback or "")


@pytest.mark.parametrize(
    ("decision", "has_judge", "expected"),
    [
        ("approved", False, COMPLETE),
        ("approved", True, Validate(1)),
        ("denied", False, None),
        ("denied", True, None),
    ],
)
def test_a_decision_that_comes_while_the_run_rests_counts_when_it_is_resumed(
    decision: str, has_judge: bool, expected: object
) -> None:
    plan = JUDGED if has_judge else ALONE
    resumed = events.RunResumed(plan=plan, version="0")
    state = state_after(
        plan, *worked(), tampered(), asked(), WAITED, said(1, decision), resumed
    )
    step = decide(state)
    if expected is None:
        assert isinstance(step, RunRound)
    else:
        assert step == expected
    assert state.iterations == 1


def test_without_a_decision_a_resumed_run_asks_again() -> None:
    state = state_after(ALONE, *worked(), tampered(), asked(), WAITED, RESUMED)
    assert isinstance(decide(state), AskApproval)
    assert [item.id for item in state.waiting] == ["a1"]


def test_accepted_checks_on_other_files_are_checked_again_when_the_run_is_resumed() -> (
    None
):
    moved = events.RunResumed(
        plan=ALONE, version="0", changed=("x",), snapshot=snapshot("c")
    )
    state = state_after(
        ALONE, *worked(), tampered(), asked(), WAITED, said(1, "approved"), moved
    )
    assert decide(state) == Validate(1)
    assert state.approved_checks == {"k1": ""}


def test_a_new_round_withdraws_the_question() -> None:
    state = state_after(ALONE, *worked(), tampered(), asked(), *worked(2))
    assert (state.waiting, state.changed_checks) == ((), None)


def test_an_agent_that_reports_itself_blocked_is_judged_after_a_denial_too() -> None:
    blocked = events.BlockReported(reason="the test is wrong")
    start, end = worked()
    denied = (start, blocked, end, tampered(), asked(), said(1, "denied"))
    assert decide(state_after(JUDGED, *denied)) == AskJudge(1)
    again = (
        events.RoundStarted(round=2, prompt="retry"),
        blocked,
        events.RoundFinished(round=2),
        tampered(2),
    )
    assert decide(state_after(JUDGED, *denied, *again)) == AskJudge(2)


# -- the judge's review of changed checks ---------------------------------------------------------------------------------

REVIEWING = JUDGED.model_copy(update={"approvals": Approvals(checks="judge")})
HINT = 'allow = ["tests/test_a.py"]'
ACCEPTED = events.ReviewedChange(
    path=PATHS[0], change="@@ -1 +1 @@", quote="accept empty input", hunk="h1"
)
REFUSED = events.ReviewedChange(
    path=PATHS[1], change="@@ -2 +2 @@", problem="no words ask for it", hunk="h2"
)


def reviewed(
    decision: str, *changes: events.ReviewedChange, key: str = "k1", **more: Any
) -> events.ChecksReviewed:
    return events.ChecksReviewed.model_validate(
        {"round": 1, "key": key, "decision": decision, "changes": changes, **more},
        strict=False,
    )


def test_the_judge_reviews_changed_checks_where_the_goal_says_so() -> None:
    state = state_after(REVIEWING, *worked(), tampered())
    assert decide(state) == ReviewChecks(1)
    assert isinstance(decide(state_after(JUDGED, *worked(), tampered())), AskApproval)
    no_judge = ALONE.model_copy(update={"approvals": Approvals(checks="judge")})
    assert isinstance(decide(state_after(no_judge, *worked(), tampered())), AskApproval)


def test_accepted_changes_run_again_and_are_labelled_with_the_reviewer() -> None:
    state = state_after(
        REVIEWING, *worked(), tampered(), reviewed("accepted", ACCEPTED)
    )
    assert decide(state) == Validate(1)
    assert state.approved_checks == {"k1": events.REVIEWED}
    assert (
        changed().label(events.REVIEWED)
        == "checks changed: tests/test_a.py, pytest.ini (reviewed by the judge)"
    )
    assert not proven(state)


def test_refused_changes_go_back_with_the_files_to_restore() -> None:
    state = state_after(
        REVIEWING, *worked(), tampered(), reviewed("refused", ACCEPTED, REFUSED)
    )
    step = decide(state)
    assert isinstance(step, RunRound)
    assert (step.feedback or "").endswith(
        "- restore pytest.ini: nothing in the goal asks for this change\n  @@ -2 +2 @@: no words ask for it"
    )
    assert "test_a.py" not in (step.feedback or "")
    assert state.refused_hunks == {"h2"}


def test_of_a_file_of_which_a_part_is_refused_only_that_part_goes_back() -> None:
    other = REFUSED.model_copy(update={"path": PATHS[0]})
    feedback = reviewed("refused", ACCEPTED, other).feedback
    assert feedback.startswith(
        "- undo these changes in tests/test_a.py: nothing in the goal asks for this change"
    )
    assert "@@ -1 +1 @@" not in feedback


def test_refused_versions_are_not_reviewed_again_and_others_are() -> None:
    before = (*worked(), tampered(), reviewed("refused", REFUSED), *worked(2))
    same = decide(state_after(REVIEWING, *before, tampered(2)))
    assert isinstance(same, RunRound)
    assert "- restore pytest.ini" in (same.feedback or "")
    assert decide(state_after(REVIEWING, *before, tampered(2, "k2"))) == ReviewChecks(2)


def test_green_results_of_refused_versions_prove_nothing() -> None:
    """A checker may record the results of the agent's versions; the judge is not asked for a verdict on them."""
    offered = checked(passed=True, changed_checks=changed())
    state = state_after(REVIEWING, *worked(), offered, reviewed("refused", REFUSED))
    assert (state.validators_green, isinstance(decide(state), RunRound)) == (
        False,
        True,
    )


def test_what_the_judge_cannot_decide_waits_for_a_person() -> None:
    undecided = reviewed("undecided", reason="the diff is too long", asked=False)
    state = state_after(REVIEWING, *worked(), tampered(), undecided)
    step = decide(state)
    assert isinstance(step, AskApproval)
    assert step.rule.endswith("; the judge did not decide: the diff is too long")
    accepted = state_after(
        REVIEWING, *worked(), tampered(), undecided, asked(), said(1, "approved")
    )
    assert (decide(accepted), accepted.approved_checks) == (Validate(1), {"k1": ""})


def test_a_goal_that_refuses_changed_checks_sends_the_agent_back_at_once() -> None:
    for plan in (ALONE, JUDGED):
        refusing = plan.model_copy(update={"approvals": Approvals(checks="refuse")})
        step = decide(state_after(refusing, *worked(), tampered()))
        assert isinstance(step, RunRound)
        assert (step.feedback or "").endswith(
            "- restore tests/test_a.py\n- restore pytest.ini"
        )


def test_an_end_that_changed_checks_caused_names_the_line_that_allows_them() -> None:
    offered = changed().model_copy(update={"hint": HINT})
    line = f"write under [workspace]: {HINT}"
    refusing = ALONE.model_copy(
        update={"approvals": Approvals(checks="refuse"), "max_iterations": 1}
    )
    capped = decide(
        state_after(refusing, *worked(), checked(passed=False, changed_checks=offered))
    )
    waiting = state_after(
        ALONE, *worked(), checked(passed=False, changed_checks=offered), asked()
    )
    for step in (capped, awaiting_approval(waiting)):
        assert isinstance(step, RunEnded)
        assert line in step.message
    assert "goal approve r" in awaiting_approval(waiting).message
    strict = decide(
        state_after(
            refusing, *worked(), checked(passed=False, differing=("tests/test_a.py",))
        )
    )
    assert isinstance(strict, RunEnded)
    assert line in strict.message
    red = decide(state_after(refusing, *worked(), checked(passed=False)))
    assert isinstance(red, RunEnded)
    assert "allow" not in red.message


def test_a_review_that_was_interrupted_starts_again() -> None:
    begun = events.ChecksReviewStarted(round=1, key="k1")
    resumed = events.RunResumed(plan=REVIEWING, version="0")
    state = state_after(REVIEWING, *worked(), tampered(), begun, resumed)
    assert (decide(state), state.memory.current_step) == (
        ReviewChecks(1),
        "review_checks-1",
    )


# -- labels that a goal lets be reviewed ----------------------------------------------------------------------------------

RESTS = "rests on changed files: data/x.json"


def labelled(number: int = 1) -> events.ValidatorsFinished:
    """Green, with a label that the goal lets be reviewed."""
    offered = changed().model_copy(
        update={"labels": (RESTS,), "paths": ("data/x.json",)}
    )
    return checked(number, labels=(RESTS, "flaky: tests"), changed_checks=offered)


def test_green_results_with_such_a_label_wait_for_a_person() -> None:
    state = state_after(ALONE, *worked(), labelled())
    step = decide(state)
    assert isinstance(step, AskApproval)
    assert (step.action, step.kind) == (RESTS, "checks")
    assert (proven(state), state.validators_green) == (False, False)
    assert [(attempt.attempt, attempt.passed) for attempt in state.attempts] == [
        (1, False)
    ]
    accepted = state_after(ALONE, *worked(), labelled(), asked(), said(1, "approved"))
    assert decide(accepted) == COMPLETE
    assert outcome_of(accepted).labels == (RESTS, "flaky: tests")
    assert [(attempt.attempt, attempt.passed) for attempt in accepted.attempts] == [
        (1, True)
    ]


def test_the_judge_accepts_such_a_label_without_another_check() -> None:
    assert decide(state_after(REVIEWING, *worked(), labelled())) == ReviewChecks(1)
    state = state_after(
        REVIEWING, *worked(), labelled(), reviewed("accepted", ACCEPTED)
    )
    assert decide(state) == AskJudge(1)
    assert outcome_of(state).labels == (
        f"{RESTS} (reviewed by the judge)",
        "flaky: tests",
    )
    refused = state_after(
        REVIEWING, *worked(), labelled(), reviewed("refused", REFUSED)
    )
    assert isinstance(decide(refused), RunRound)


def test_a_goal_that_refuses_such_a_label_sends_the_agent_back() -> None:
    refusing = ALONE.model_copy(update={"approvals": Approvals(checks="refuse")})
    step = decide(state_after(refusing, *worked(), labelled()))
    assert isinstance(step, RunRound)
    assert step.feedback == f"The goal accepts no result with this label: {RESTS}"


# -- hidden validators, refusals, labels ---------------------------------------------------------------------------------

HIDING = RunRules(validators=("tests",), hidden=("secret",), max_iterations=5)


def both(
    *, visible: bool = True, hidden: bool | None = True
) -> events.ValidatorsFinished:
    results = [result(passed=visible)] + (
        [] if hidden is None else [result("secret", passed=hidden, hidden=True)]
    )
    return events.ValidatorsFinished(
        round=1,
        results=tuple(results),
        concealed=(Observation(id="o1", source="validator secret", round=1),),
    )


def test_green_needs_the_hidden_validators_as_well() -> None:
    assert decide(state_after(HIDING, *worked(), both())) == COMPLETE
    assert not proven(state_after(HIDING, *worked(), both(hidden=None)))
    assert not proven(state_after(HIDING, *worked(), both(hidden=False)))


def test_of_a_red_hidden_validator_the_agent_reads_one_sentence() -> None:
    assert decide(state_after(HIDING, *worked(), both(hidden=False))) == RunRound(
        "retry", 2, HIDDEN
    )


def test_concealed_observations_are_numbered_and_counted() -> None:
    state = state_after(HIDING, *worked(), both())
    assert (state.observations, state.memory.evidence_refs) == (1, ("o1",))


def test_a_refusal_is_red_the_agent_reads_it_and_not_the_hint() -> None:
    refused = events.ValidatorsFinished(
        round=1,
        results=(),
        refusal="installed packages changed (x)",
        hint="allow = [...]",
    )
    state = state_after(ALONE, *worked(), refused)
    assert decide(state) == RunRound("retry", 2, "installed packages changed (x)")
    assert not proven(state)
    green = checked(refusal="installed packages changed (x)")
    assert isinstance(decide(state_after(ALONE, *worked(), green)), RunRound)


def test_labels_of_the_last_results_are_labels_of_the_run() -> None:
    started = events.RunStarted(
        workspace="/w",
        version="0",
        labels=("self-judged",),
        check_environment="overlay",
        checks="overlay",
    )
    first = checked(passed=False, labels=("flaky: tests",))
    last = checked(
        2,
        labels=("checks differ: a.py", "self-judged"),
        differing=("a.py",),
        protected_changes=("a.py (x)",),
    )
    outcome = outcome_of(
        state_after(ALONE, started, *worked(), first, *worked(2), last)
    )
    assert outcome.labels == ("self-judged", "checks differ: a.py")
    assert (outcome.differing, outcome.protected_changes) == (("a.py",), ("a.py (x)",))
    assert outcome.check_environment == "overlay"


# -- what no sequence of results may do ----------------------------------------------------------------------------------

_CHECKS = st.builds(
    lambda passed, leaked, refusal, key, hidden: events.ValidatorsFinished(
        round=1,
        results=(
            result(passed=passed),
            *([] if hidden is None else [result("secret", passed=hidden, hidden=True)]),
        ),
        leaked=leaked,
        refusal=refusal,
        changed_checks=changed(key) if key and not passed else None,
    ),
    passed=st.booleans(),
    leaked=st.sampled_from([(), ("a.py",)]),
    refusal=st.sampled_from(["", "refused"]),
    key=st.sampled_from(["", "k1", "k2"]),
    hidden=st.sampled_from([None, True, False]),
)


@given(st.lists(_CHECKS, min_size=1, max_size=5))
def test_nothing_completes_but_green_results_that_count(
    checks: list[events.ValidatorsFinished],
) -> None:
    state = state_after(HIDING, *worked(), *checks)
    last = checks[-1]
    names = tuple(item.name for item in last.results)
    green = names == ("tests", "secret") and all(item.passed for item in last.results)
    completes = (
        isinstance(step := decide(state), RunEnded)
        and step.status is GoalStatus.COMPLETE
    )
    if completes:
        assert green
        assert not last.leaked
        assert not last.refusal
        assert last.changed_checks is None
    elif green and not last.leaked and not last.refusal:
        assert state.leaks >= LEAKS
