"""How approvals change a state: what waits, and what a person said of it. Pure."""

from __future__ import annotations

from goalrunner import events
from goalrunner.state.run_state import KEPT, Approval, RunState

UNGUARDED = "unguarded approval"
"""Label of a run with an approval that the agent could have given itself."""


def approval_requested(state: RunState, event: events.ApprovalRequested, at: str) -> RunState:
    """Something waits from now on. `at` is ISO 8601."""
    approval = Approval(
        id=event.approval_id,
        kind=event.kind,
        action=event.action,
        rule=event.rule,
        tool_call_id=event.tool_call_id,
        snapshot=event.snapshot,
        requested_at=at,
        expires_at=event.expires_at,
    )
    return state.model_copy(
        update={"approvals": (*state.approvals[-KEPT + 1 :], approval), "requested": state.requested + 1}
    )


def approval_recorded(state: RunState, event: events.ApprovalRecorded) -> RunState:
    """A decision counts once: what has been decided stays decided. A denied completion never was one."""
    state = _noted(state, event)
    waiting = next((item for item in state.waiting if item.id == event.approval_id), None)
    if waiting is None:
        return state
    decided = waiting.model_copy(
        update={
            "decision": event.decision,
            "by": event.by,
            "reason": event.reason,
            "guarded": event.guarded,
        }
    )
    approvals = tuple(decided if item.id == decided.id else item for item in state.approvals)
    labels = state.labels
    if event.decision == "approved" and not event.guarded and UNGUARDED not in labels:
        labels = (*labels, UNGUARDED)
    decided_state = state.model_copy(update={"approvals": approvals, "labels": labels})
    return _undone(decided_state, decided) if decided.refused and decided.kind == "complete" else decided_state


def _noted(state: RunState, event: events.ApprovalRecorded) -> RunState:
    """The reference, and what a denial stops. (Source: apply_event of Goals and State.)"""
    refs = (*state.memory.approval_refs[-KEPT + 1 :], event.approval_id)
    stops = event.decision != "approved" and state.plan.approvals.on_deny == "stop"
    memory = state.memory.model_copy(update={"approval_refs": refs, "stop_reason": "blocked" if stops else None})
    return state.model_copy(update={"memory": memory})


def _undone(state: RunState, approval: Approval) -> RunState:
    """The attempt did not pass after all; the feedback is what the person said."""
    said = f"{approval.decision}: {approval.reason}" if approval.reason else str(approval.decision)
    feedback = f"the owner did not accept the result ({said})"
    changes: dict[str, object] = {}
    if state.verdict is not None:
        changes["verdict"] = state.verdict.model_copy(update={"complete": False, "missing": feedback})
    if state.attempts:
        attempt = state.attempts[-1].model_copy(update={"passed": False, "feedback": feedback})
        changes["attempts"] = (*state.attempts[:-1], attempt)
    return state.model_copy(update=changes)
