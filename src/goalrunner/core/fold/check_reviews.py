"""The review of changed checks: whether the agent's versions of the checks count."""

from __future__ import annotations

from goalrunner.core import events
from goalrunner.core.events import REVIEWED, ChangedChecks
from goalrunner.core.fold.failures import without_failures
from goalrunner.core.fold.rounds import with_verdict
from goalrunner.core.run_state import KEPT, Approval, Phase, RunState
from goalrunner.core.steps import with_step, with_step_done
from goalrunner.core.verdict import verdict_of


def review_started(state: RunState, event: events.ChecksReviewStarted) -> RunState:
    return with_step(state, f"review_checks-{event.round}").replace(awaiting="judge")


def checks_reviewed(state: RunState, event: events.ChecksReviewed) -> RunState:
    """Return the state after the judge's review of changed checks."""
    state = with_step_done(without_failures(state, "judge"))
    state = state.replace(reviews=(*state.reviews, event)[-KEPT:], awaiting=None)
    changed = state.changed_checks
    # A review of other versions decides nothing here; an undecided one asks a person.
    if changed is None or event.key != changed.key or event.decision == "undecided":
        return state
    if event.decision == "accepted":
        return _accepted(state, changed, REVIEWED)
    return with_checks_refused(state, _review_feedback(event))


def checks_decided(state: RunState, approval: Approval) -> RunState:
    """Return the state after a person's decision on changed checks."""
    changed = state.changed_checks
    if changed is None or approval.snapshot != changed.key:
        return state
    if approval.decision == "approved":
        return _accepted(state, changed)
    return with_checks_refused(state, _denial_feedback(changed, approval))


def refusal_of(state: RunState, changed: ChangedChecks) -> str:
    """Return why these versions of the checks do not count.

    Empty if that is not known without a new review.
    """
    approval = state.newest_approval(
        lambda item: item.kind == "checks" and item.snapshot == changed.key
    )
    if approval is not None and approval.decision == "denied":
        return _denial_feedback(changed, approval)
    if approval is None and state.plan.approvals.checks == "refuse":
        return _refusal_by_goal(changed)
    for review in reversed(state.reviews):
        if review.key == changed.key and review.decision == "refused":
            return _review_feedback(review)
    return ""


def _refusal_by_goal(changed: ChangedChecks) -> str:
    if changed.labels:
        return f"The goal accepts no result with this label: {changed.action}"
    to_restore = [f"restore {path}" for path in changed.paths]
    # Without changed files, tests are missing or skipped in files of the work.
    lines = to_restore or [test.text for test in changed.tests]
    listed = [f"- {line}" for line in lines]
    return "\n".join(["The goal allows no changes of its checks:", *listed])


def _denial_feedback(changed: ChangedChecks, approval: Approval) -> str:
    """Return the feedback about changed checks that a person did not accept."""
    reason = f" ({approval.reason})" if approval.reason else ""
    if changed.paths:
        paths = ", ".join(changed.paths)
        return f"Your changes to {paths} were not accepted{reason}."
    return f'A result with "{changed.action}" was not accepted{reason}.'


def _review_feedback(review: events.ChecksReviewed) -> str:
    return (
        "Your changes of the checks were reviewed. Reach the objective without these:"
        f"\n{review.feedback}"
    )


def _accepted(state: RunState, changed: ChangedChecks, reviewer: str = "") -> RunState:
    """Return the state in which the changed checks, or the labels, are accepted."""
    if changed.labels:
        labels = _with_reviewer(state.check_labels, changed.labels, reviewer)
        return _with_results(state.replace(check_labels=labels), changed)
    if not state.plan.has_judge:
        labels = (*state.check_labels, changed.label(reviewer))
        return _with_results(state.replace(check_labels=labels), changed)
    # The judge needs the accepted results as observations: the validators run with
    # these versions.
    if state.phase is Phase.ENDED:
        return state.replace(changed_checks=None, left=Phase.WORKED)
    return state.replace(changed_checks=None, phase=Phase.WORKED)


def _with_reviewer(
    labels: tuple[str, ...], accepted: tuple[str, ...], reviewer: str
) -> tuple[str, ...]:
    """Return the labels, with the reviewer behind those that were accepted."""
    if not reviewer:
        return labels
    return tuple(
        f"{label} ({reviewer})" if label in accepted else label for label in labels
    )


def _with_results(state: RunState, changed: ChangedChecks) -> RunState:
    """Return the state in which the reviewed results are those of the round."""
    state = state.replace(validators=changed.results, refusal="", changed_checks=None)
    if state.decided_by_validators:
        return with_verdict(state, verdict_of(changed.results))
    return state


def with_checks_refused(state: RunState, refusal: str) -> RunState:
    """Return the state in which the agent's versions were refused: the round fails."""
    verdict = verdict_of(state.validators, refusal)
    return with_verdict(state.replace(changed_checks=None, refusal=refusal), verdict)
