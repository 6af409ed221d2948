"""How results of validators change a state: baseline, rounds, changed checks; and how rounds are counted."""

from __future__ import annotations

from collections.abc import Sequence

from goalrunner import events
from goalrunner.model.outcome import GoalAttempt
from goalrunner.model.validation import ValidatorResult
from goalrunner.model.verdict import GoalVerdict, verdict_of
from goalrunner.state import steps
from goalrunner.state.changes import with_budget, with_evidence, with_fields
from goalrunner.state.permission import accepted, checks_changed_label
from goalrunner.state.run_state import KEPT, Approval, Baseline, Phase, RunState
from goalrunner.state.stalling import stalled


def baselined(state: RunState, event: events.BaselineTaken) -> RunState:
    """The validators ran before round 1."""
    seen = steps.ended(with_evidence(state, [item.id for item in (*event.observations, *event.concealed)]))
    baseline = Baseline(standing=event.standing, reason=event.reason, results=event.results)
    green = event.standing == "green"
    ran_on = event.snapshot or state.base
    taken = with_fields(seen, phase=Phase.BASELINED, baseline=baseline, validators=event.results, snapshot=ran_on)
    taken = with_fields(taken, content=ran_on.id if ran_on else "", leaked=(), refusal="", changed_checks=None)
    # A baseline that decides is iteration 1.
    decides = green and not state.plan.has_judge and not state.plan.needs_round
    return decided(taken, verdict_of(event.results)) if decides else taken


def validated(state: RunState, event: events.ValidatorsFinished) -> RunState:
    """The validators ran on what a round left."""
    seen = [observation.id for observation in (*event.observations, *event.concealed)]
    ran = steps.ended(with_evidence(state, seen))
    ran = with_fields(
        ran,
        phase=Phase.VALIDATED,
        validators=event.results,
        refusal=event.refusal,
        leaked=event.leaked,
        leaks=ran.leaks + bool(event.leaked),
        snapshot=event.snapshot or ran.snapshot,
        protected_changes=event.protected_changes,
        differing=event.differing,
        check_labels=event.labels,
        changed_checks=event.changed_checks,
    )
    if obstacle := obstacle_of(event.results):
        # The round is not decided, and the agent reads nothing of it: it cannot change that.
        return with_fields(ran, obstacle=obstacle, obstacles=ran.obstacles + 1, changed_checks=None)
    ran = with_fields(ran, obstacle="", obstacles=0)
    denied = _denied(state, event.changed_checks)
    if denied is not None:
        # These very versions were denied before: there is no second question.
        ran = with_fields(ran, changed_checks=None)
    if event.leaked or not ran.decided_by_validators:
        return ran
    if event.changed_checks is not None and denied is not None:
        return _not_accepted(ran, event.changed_checks, denied)
    verdict = verdict_of(event.results, event.refusal, event.protected_changes)
    # A person may still accept the agent's versions of the checks: the round is then counted as passed.
    return decided(ran, verdict)


def obstacle_of(results: Sequence[ValidatorResult]) -> str:
    """Return why validators cannot run here, one line each; empty if all can."""
    return "\n".join(f"validator {item.name} cannot run here: {item.summary}" for item in results if item.cannot_run)


def checks_decided(state: RunState, event: events.ApprovalRecorded) -> RunState:
    """A person decided which versions of the checks count."""
    about = next((item for item in state.approvals if item.id == event.approval_id), None)
    changed = state.changed_checks
    if changed is None or about is None or about.kind != "checks" or about.snapshot != changed.key:
        return state
    if about.decision == "approved" and state.plan.has_judge:
        # The judge needs the accepted results as observations: the validators run with these versions.
        place = "left" if state.phase is Phase.ENDED else "phase"
        return with_fields(state, changed_checks=None, **{place: Phase.WORKED})
    if about.decision == "approved":
        label = checks_changed_label(changed.paths)
        state = with_fields(
            state, validators=changed.results, changed_checks=None, check_labels=(*state.check_labels, label)
        )
        return decided(state, verdict_of(state.validators)) if state.decided_by_validators else state
    return _not_accepted(state, changed, about)


def _denied(state: RunState, changed: events.ChangedChecks | None) -> Approval | None:
    """Return the approval in which a person denied these very versions of the checks."""
    key = changed.key if changed is not None else ""
    about = (item for item in reversed(state.approvals) if item.kind == "checks" and item.snapshot == key)
    return next((item for item in about if item.decision == "denied"), None)


def _not_accepted(state: RunState, changed: events.ChangedChecks, approval: Approval) -> RunState:
    """The agent's versions of the checks do not count: the round is red."""
    said = f" ({approval.reason})" if approval.reason else ""
    verdict = verdict_of(state.validators, f"Your changes to {', '.join(changed.paths)} were not accepted{said}.")
    return decided(with_fields(state, changed_checks=None), verdict)


def outdated(state: RunState, event: events.WorkspaceChanged) -> RunState:
    """What was checked is no longer what is there: it is checked once more."""
    again = Phase.WORKED if state.round else Phase.READY
    return with_fields(state, phase=again, snapshot=event.snapshot, leaked=event.paths, leaks=state.leaks + 1)


def decided(state: RunState, verdict: GoalVerdict) -> RunState:
    """Count the round, with this verdict."""
    verdict = accepted(state, verdict)
    now = counted(state, passed=verdict.complete, feedback=verdict.missing or None, score=verdict.score)
    return stalled(with_fields(now, verdict=verdict))


def counted(state: RunState, *, passed: bool, feedback: str | None = None, score: float = 0.0) -> RunState:
    """Count the round once, however often it is checked: an iteration is a turn of the agent that was checked.

    A baseline counts only if it decides the run.
    """
    if state.round == 0 and not passed:
        return state
    again = state.counted == state.round
    number = state.iterations if again else state.iterations + 1
    attempt = GoalAttempt(attempt=number, passed=passed, feedback=feedback, score=score)
    before = state.attempts[:-1] if again else state.attempts[-KEPT + 1 :]
    state = with_fields(state, iterations=number, counted=state.round, attempts=(*before, attempt))
    return with_budget(state, iteration_count=number)
