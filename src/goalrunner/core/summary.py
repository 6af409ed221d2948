"""The outcome and the summary of a run, made from its state."""

from __future__ import annotations

from typing import Any

from goalrunner.core.outcome import ApprovalRow, GoalOutcome, GoalStatus, Usage
from goalrunner.core.progress import accounts_of
from goalrunner.core.run_state import Approval, RunState


def outcome_of(state: RunState, run_path: str = "") -> GoalOutcome:
    """Return the outcome of a state, also of a run that has not ended (status `running`)."""
    return GoalOutcome(
        run_id=state.goal.run_id,
        objective=state.goal.description,
        status=state.status,
        stop_reason=state.stop_reason,
        message=state.message,
        iterations=state.iterations,
        verdict=state.verdict,
        attempts=state.attempts,
        usage=accounts_of(state),
        limits=_limits(state),
        models=state.models,
        workspace=state.workspace,
        labels=labels_of(state),
        protected_changes=state.protected_changes,
        differing=state.differing,
        check_environment=state.check_environment,
        redacted=state.redacted,
        started_at=state.goal.created_at,
        approvals=tuple(map(_approval, state.approvals)),
        questions=state.memory.open_questions,
        finished_at=state.ended_at,
        duration=state.elapsed,
        run_path=run_path,
        signal=state.signal,
    )


def summary_of(state: RunState) -> dict[str, Any]:
    """Return the content of summary.json, a flat dict of JSON values."""
    verdict = state.verdict
    outcome = outcome_of(state)
    judge, total = outcome.usage.get("judge", Usage()), sum(outcome.usage.values(), Usage())
    ended = state.status is not GoalStatus.RUNNING
    return {
        "run_id": state.goal.run_id,
        "objective": state.goal.description,
        "status": str(state.status),
        "stop_reason": str(state.stop_reason) if state.stop_reason else None,
        "message": state.message,
        "round": state.round,
        "iterations": state.iterations,
        "max_iterations": state.plan.max_iterations,
        "score": verdict.score if verdict else None,
        "complete": verdict.complete if verdict else False,
        "missing": verdict.missing if verdict else "",
        "criteria_satisfied": sum(criterion.satisfied for criterion in verdict.criteria) if verdict else 0,
        "criteria_total": len(verdict.criteria) if verdict else 0,
        "agent_model": state.models.get("agent", ""),
        "judge_model": state.models.get("judge", ""),
        "workspace": state.workspace,
        "labels": list(outcome.labels),
        "protected_changes": list(state.protected_changes),
        "check_environment": state.check_environment,
        "goal_file": state.goal_file,
        "round_ended": state.round_ended,
        "handed": list(state.handed),
        "redacted": state.redacted,
        "started_at": outcome.started_at,
        "updated_at": state.goal.updated_at,
        "finished_at": outcome.finished_at,
        "duration": state.elapsed,
        "tokens": _known(total),
        "estimated_tokens": total.estimated_tokens,
        "uncounted_calls": total.uncounted_calls,
        "cost_usd": total.cost_usd,
        "known_cost_usd": total.known_cost_usd,
        "judge_tokens": _known(judge),
        "judge_cost_usd": judge.cost_usd,
        "limits": outcome.limits,
        "exit_code": outcome.exit_code if ended else None,
        "validators": [
            {"name": result.name, "passed": result.passed, "summary": result.remark} for result in state.validators
        ],
        "current_step": state.memory.current_step,
        "completed_steps": list(state.memory.completed_steps),
        "pending_steps": list(state.memory.pending_steps),
        "open_questions": list(state.memory.open_questions),
        "approvals": [_approval(item).model_dump(mode="json") for item in state.waiting],
    }


def _known(usage: Usage) -> int | None:
    """Tokens; None where nothing is known of them."""
    return None if usage.input_tokens is None else usage.tokens


def _approval(item: Approval) -> ApprovalRow:
    return ApprovalRow(
        id=item.id,
        kind=item.kind,
        action=item.action,
        rule=item.rule,
        requested_at=item.requested_at,
        expires_at=item.expires_at,
        decision=item.decision or "waiting",
        decided_at=item.decided_at,
        by=item.by,
        reason=item.reason,
        guarded=item.guarded,
        evidence_refs=item.evidence_refs,
        diff=item.preview.sha256 if item.preview else "",
    )


def labels_of(state: RunState) -> tuple[str, ...]:
    """Return what weakens the proof of the run, with what its last results add."""
    return tuple(dict.fromkeys((*state.labels, *state.check_labels)))


def _limits(state: RunState) -> dict[str, float | None]:
    plan = state.plan
    return {
        "max_iterations": plan.max_iterations,
        "timeout": plan.timeout,
        "tokens": plan.tokens,
        "cost_usd": plan.cost_usd,
    }
