"""The outcome of a run, made of its state alone."""

from __future__ import annotations

from goalrunner.core.errors import some
from goalrunner.core.labels import Label
from goalrunner.core.observation import EvidenceRow
from goalrunner.core.outcome import ApprovalFacts, ApprovalRow, GoalOutcome, GoalStatus
from goalrunner.core.run_state import Approval, RunState
from goalrunner.core.verdict import GoalVerdict
from goalrunner.core.waiting import resume_at

NOT_SAID = "the check did not say what is missing"


def outcome_of(
    state: RunState,
    run_path: str = "",
    *,
    evidence: tuple[EvidenceRow, ...] = (),
    lost: bool = False,
) -> GoalOutcome:
    """Return the outcome of a state.

    A run that has not ended has the status `running`. `lost`: its process is gone.
    """
    # None leaves it to the status whether the run has stopped.
    over = True if lost else None
    return GoalOutcome(
        run_id=state.goal.run_id,
        parent=state.goal.parent,
        objective=state.goal.description,
        derived_criteria=state.goal.derived_criteria,
        status=state.status,
        stop_reason=state.stop_reason,
        message=state.message,
        iterations=state.iterations,
        verdict=last_verdict(state),
        evidence=evidence,
        attempts=state.attempts,
        usage=state.accounts(over=over),
        agent_usage=state.agents_at_work(over=over),
        limits=state.plan.limits,
        models=state.models,
        workspace=state.workspace,
        changes=state.changes,
        gone_or_reverted=state.gone_or_reverted,
        labels=_labels(state),
        protected_changes=state.protected_changes,
        differing=state.differing,
        left_changed=state.left_changed,
        check_environment=state.check_environment,
        approvals=tuple(map(approval_row, state.approvals)),
        questions=state.memory.open_questions,
        redacted=state.redacted,
        started_at=state.goal.created_at,
        finished_at=state.ended_at,
        duration=state.elapsed,
        waited=state.waited,
        resume_at=resume_at(state),
        run_path=run_path,
        signal=state.signal,
    )


def last_verdict(state: RunState) -> GoalVerdict | None:
    """Return the last verdict; None only if no round was checked.

    One that is not complete says what is missing.
    """
    verdict = state.verdict
    step = state.memory.current_step or ""
    # The verdict of an earlier round says nothing about a round without an audit.
    lacks_audit = state.status is GoalStatus.FAILED and step.startswith("audit-")
    if state.iterations and (verdict is None or lacks_audit):
        missing = state.message
        if state.audit_problem:
            missing = f"the judge could not be asked: {state.audit_problem}"
        return GoalVerdict(
            score=0.0, complete=False, missing=missing or NOT_SAID, source="fallback"
        )
    if verdict is None or verdict.complete or verdict.missing.strip():
        return verdict
    return verdict.model_copy(update={"missing": _missing_in(verdict)})


def _missing_in(verdict: GoalVerdict) -> str:
    """Return what is missing according to the criteria of a verdict."""
    lines = [
        f"{item.criterion}: {item.missing}".rstrip(": ")
        for item in verdict.criteria
        if not item.satisfied
    ]
    return "\n".join(lines) or verdict.blocked or NOT_SAID


def _labels(state: RunState) -> tuple[str, ...]:
    labels = [*state.labels, *state.check_labels]
    if state.lacks_audit:
        labels.append(Label.NOT_AUDITED.value)
    has_failed = state.status not in (GoalStatus.RUNNING, GoalStatus.COMPLETE)
    if state.left_changed and has_failed:
        labels.append(Label.PROTECTED_CHANGED.about(some(state.left_changed)))
    return tuple(dict.fromkeys(labels))


def approval_row(item: Approval) -> ApprovalRow:
    """Return an approval as reports and outcome show it."""
    facts = item.model_dump(include=set(ApprovalFacts.model_fields))
    diff = item.preview.sha256 if item.preview else ""
    return ApprovalRow(**facts, decision=item.decision or "waiting", diff=diff)
