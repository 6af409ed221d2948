"""What the results of validators, critic and judge mean for a round."""

from __future__ import annotations

import json

from goalrunner.core import events
from goalrunner.core.events import Critique
from goalrunner.core.fold.check_reviews import refusal_of, with_checks_refused
from goalrunner.core.fold.failures import without_failures
from goalrunner.core.fold.person import with_questions
from goalrunner.core.fold.rounds import with_round_counted, with_verdict
from goalrunner.core.run_state import BaselineOutcome, Phase, RunState
from goalrunner.core.steps import with_step, with_step_done
from goalrunner.core.verdict import GoalVerdict, obstacle_of, verdict_of

_MOST_ALLOWED = 20
"""Paths that a line of the goal file names; no person copies a longer list."""


def baseline_taken(state: RunState, event: events.BaselineTaken) -> RunState:
    state = _with_results_seen(state, event)
    snapshot = event.snapshot or state.base
    state = state.replace(
        phase=Phase.BASELINED,
        baseline=BaselineOutcome(
            standing=event.standing,
            reason=event.reason,
            results=event.results,
            age=event.age,
        ),
        validators=event.results,
        leaked=(),
        refusal="",
        changed_checks=None,
        snapshot=snapshot,
        content=snapshot.id if snapshot else "",
    )
    needs_more = state.plan.has_judge or state.plan.needs_round
    if event.standing == "green" and not needs_more:
        # A baseline that decides is iteration 1.
        return with_verdict(state, verdict_of(event.results))
    return state


def _with_results_seen(
    state: RunState, event: events.BaselineTaken | events.ValidatorsFinished
) -> RunState:
    """Return the state in which the step of the validators is done."""
    ids = [observation.id for observation in events.observations_of(event)]
    return with_step_done(state.with_evidence(ids))


def critique_started(state: RunState, event: events.CritiqueStarted) -> RunState:
    # A critic that is a command or a callable has no model and no usage.
    awaiting = event.account if event.account in state.models else None
    return with_step(state, f"critique-{event.round}").replace(awaiting=awaiting)


def critique_finished(state: RunState, event: events.CritiqueFinished) -> RunState:
    critique = Critique(
        score=event.score, feedback=event.feedback, problem=event.problem
    )
    state = with_step_done(without_failures(state, event.account))
    return state.replace(critique=critique, awaiting=None, failure=None)


def validators_finished(state: RunState, event: events.ValidatorsFinished) -> RunState:
    obstacle, changed_checks = obstacle_of(event.results), event.changed_checks
    refusal = ""
    if changed_checks is not None and not obstacle:
        refusal = refusal_of(state, changed_checks)
    after = _with_results_seen(state, event).replace(
        phase=Phase.VALIDATED,
        validators=event.results,
        refusal=event.refusal,
        leaked=event.leaked,
        leaks=state.leaks + bool(event.leaked),
        snapshot=event.snapshot or state.snapshot,
        protected_changes=event.protected_changes,
        differing=event.differing,
        # Earlier versions recorded only paths that the validators saw as they were.
        left_changed=event.left_changed or event.differing,
        check_labels=event.labels,
        # Versions that were refused before are not reviewed again.
        changed_checks=None if obstacle or refusal else changed_checks,
        settling=_settling_line(event),
        obstacle=obstacle,
        obstacles=state.obstacles + 1 if obstacle else 0,
    )
    if refusal and not event.leaked:
        return with_checks_refused(after, refusal)
    if obstacle or event.leaked or not after.decided_by_validators:
        # With an obstacle the round is not decided. The agent gets no feedback about
        # it, as it cannot remove it.
        return after
    return with_verdict(after, _verdict_of_validators(event))


def _verdict_of_validators(event: events.ValidatorsFinished) -> GoalVerdict:
    """Return the verdict of validators that alone decide a round."""
    changed_checks, refusal = event.changed_checks, event.refusal
    if not refusal and changed_checks is not None and changed_checks.labels:
        # A review may still accept the agent's versions of the checks: the round is
        # then counted as passed.
        refusal = f"the result has to be reviewed: {changed_checks.action}"
    return verdict_of(event.results, refusal, event.protected_changes)


def _settling_line(event: events.ValidatorsFinished) -> str:
    """Return what a person can write in the goal file so that changes are accepted.

    They are those that this check did not accept; the next run accepts them.
    """
    line, changed_checks = "", event.changed_checks
    is_red = any(not result.passed for result in event.results)
    if changed_checks is not None:
        line = changed_checks.hint
    elif is_red and 0 < len(event.differing) <= _MOST_ALLOWED:
        line = f"allow = {json.dumps(event.differing, ensure_ascii=False)}"
    if not line:
        return event.hint
    return f"to allow these changes in the next run, write under [workspace]: {line}"


# The checks ran on files that are different now, so they run again.
def workspace_changed(state: RunState, event: events.WorkspaceChanged) -> RunState:
    return state.replace(
        phase=state.unchecked,
        snapshot=event.snapshot,
        leaked=event.paths,
        leaks=state.leaks + 1,
    )


def audit_started(state: RunState, event: events.AuditStarted) -> RunState:
    return with_step(state, f"audit-{event.round}").replace(awaiting="judge")


def audit_failed(state: RunState, event: events.AuditFailed) -> RunState:
    state = state.replace(audit_problem=event.detail, audit_answer=event.answer)
    if event.kind == "parse":
        # The judge is asked again after an answer that cannot be parsed.
        return state
    return with_round_counted(state, passed=False)


def verdict_recorded(state: RunState, event: events.VerdictRecorded) -> RunState:
    verdict = event.verdict
    state = without_failures(state, "judge")
    state = with_step_done(state, _evidence_of(state, verdict))
    state = with_questions(state, verdict.questions).replace(
        phase=Phase.JUDGED,
        goal=state.goal.model_copy(
            update={"derived_criteria": _derived_criteria(state, verdict)}
        ),
        unread=state.unread + 1 if verdict.source == "fallback" else 0,
        leaked=(),
        awaiting=None,
    )
    return with_verdict(state, verdict)


def _evidence_of(state: RunState, verdict: GoalVerdict) -> str:
    """Return the evidence of an audit.

    It is the first observation that the audit cites, else the newest one.
    """
    numbered = {f"o{number}" for number in range(1, state.observations + 1)}
    for identifier in verdict.cited:
        if identifier in numbered:
            return identifier
    return "".join(state.memory.evidence_refs[-1:])


def _derived_criteria(state: RunState, verdict: GoalVerdict) -> tuple[str, ...]:
    """Return the criteria that audits have derived, with those of this verdict.

    If the goal has no criteria, those that an audit derives apply to all later audits.
    """
    goal = state.goal
    if goal.success_criteria:
        return goal.derived_criteria
    criteria = [item.criterion for item in verdict.criteria]
    derived = [text for text in criteria if text not in goal.constraints]
    return tuple(dict.fromkeys((*goal.derived_criteria, *derived)))


def confirmation_recorded(
    state: RunState, event: events.ConfirmationRecorded
) -> RunState:
    state = with_step_done(without_failures(state, "judge"))
    state = state.replace(phase=Phase.CONFIRMED)
    if event.confirmed:
        return state.replace(confirmed=event.reason or event.claim)
    return state.replace(refuted=event.claim)
