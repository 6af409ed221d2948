"""How approvals and questions change the state of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from goalrunner.core import events
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import KEPT, Approval, BudgetState, Interruption, Phase, RunState
from goalrunner.core.verdict import GoalVerdict


def with_fields(state: RunState, **changes: Any) -> RunState:
    """Return the state with other fields."""
    return state.model_copy(update=changes)


def with_memory(state: RunState, **changes: Any) -> RunState:
    """Return the state with other fields of its working memory."""
    return with_fields(state, memory=state.memory.model_copy(update=changes))


def with_budget(state: RunState, **changes: Any) -> RunState:
    """Return the state with other fields of its budget."""
    budget: BudgetState = state.memory.budget_state.model_copy(update=changes)
    return with_memory(state, budget_state=budget)


def with_evidence(state: RunState, ids: Sequence[str], *, counted: bool = True) -> RunState:
    """Return the state with more references to evidence; `counted` where they are new observations."""
    refs = state.memory.evidence_refs
    for identifier in ids:
        refs = kept(refs, identifier)
    numbered = state.observations + (len(ids) if counted else 0)
    newest = ids[-1] if ids else state.seen
    return with_fields(with_memory(state, evidence_refs=refs), observations=numbered, seen=newest)


def kept(refs: tuple[str, ...], new: str) -> tuple[str, ...]:
    """Return the newest references with one more."""
    return (*refs[-KEPT + 1 :], new)


UNGUARDED = "unguarded approval"
"""Label of a run with an approval that the agent could have given itself."""


UNASKED_LABEL = "unasked actions"
"""Label of a run whose agent acted without a required approval."""

REPORTED_LABEL = "rests on reports"
"""Label of a run without validators whose evidence the agent itself reported."""


def approval_requested(state: RunState, event: events.ApprovalRequested, at: str) -> RunState:
    """Return the state with an approval request of the time `at` (ISO 8601). It replaces an older one for the same action."""
    if event.kind in ("complete", "checks"):
        state = withdrawn(state, lambda item: item.kind == event.kind)
    else:
        state = withdrawn(state, lambda item: item.tool_call_id == event.tool_call_id)
    approval = Approval(
        id=event.approval_id,
        kind=event.kind,
        action=event.action,
        rule=event.rule,
        tool_call_id=event.tool_call_id,
        snapshot=event.snapshot,
        requested_at=at,
        expires_at=event.expires_at,
        preview=event.preview,
        evidence_refs=event.evidence_refs,
    )
    return with_fields(state, approvals=(*state.approvals[-KEPT + 1 :], approval), requested=state.requested + 1)


def approval_recorded(state: RunState, event: events.ApprovalRecorded, at: str) -> RunState:
    """Return the state after a decision. Only the first decision on an approval counts."""
    state = _noted(state, event)
    waiting = next((item for item in state.waiting if item.id == event.approval_id), None)
    if waiting is None:
        return state
    given = {name: getattr(event, name) for name in ("decision", "by", "reason", "guarded")}
    decided = waiting.model_copy(update={**given, "decided_at": at})
    approvals = tuple(decided if item.id == decided.id else item for item in state.approvals)
    if event.decision == "approved" and not event.guarded:
        state = labelled(state, UNGUARDED)
    state = _said(with_fields(state, approvals=approvals), decided)
    if decided.kind != "complete":
        return state
    if decided.refused:
        return _undone(state, decided)
    if event.changed and event.snapshot is not None:
        # The workspace changed after the approval: it is checked, and approved, again.
        again = Phase.WORKED if state.round else Phase.READY
        return with_fields(state, phase=again, snapshot=event.snapshot)
    return state


def labelled(state: RunState, label: str) -> RunState:
    """Return the state with a label, once."""
    return state if label in state.labels else with_fields(state, labels=(*state.labels, label))


def withdrawn(state: RunState, about: Callable[[Approval], bool]) -> RunState:
    """Return the state with the waiting approvals for which `about` is true withdrawn."""
    gone = {item.id for item in state.waiting if about(item)}
    return _with(state, lambda item: item.id in gone, decision="withdrawn") if gone else state


def begun(state: RunState, tool_call_id: str) -> RunState:
    """Return the state after a tool call started: its approval is used and permits no other call."""
    return _with(state, lambda item: item.tool_call_id == tool_call_id and item.decision is not None, used=True)


def taken_up(state: RunState) -> RunState:
    """Return the state of a run resumed after a denial: it does not end with the same denial again."""
    return _with(state, lambda item: item.refused, told=True) if state.stop_reason is StopReason.DENIED else state


def accepted(state: RunState, verdict: GoalVerdict) -> GoalVerdict:
    """Return the verdict, not complete if a person refused the completion of this snapshot."""
    refused = state.completion
    if not verdict.complete or refused is None or not refused.refused:
        return verdict
    return verdict.model_copy(update={"complete": False, "missing": refusal(refused)})


def refusal(approval: Approval) -> str:
    """Return the feedback about a refused completion."""
    said = f"{approval.decision}: {approval.reason}" if approval.reason else str(approval.decision)
    return f"the owner did not accept the result ({said})"


def _with(state: RunState, which: Callable[[Approval], bool], **changes: object) -> RunState:
    changed = tuple(item.model_copy(update=changes) if which(item) else item for item in state.approvals)
    return with_fields(state, approvals=changed) if changed != state.approvals else state


def _noted(state: RunState, event: events.ApprovalRecorded) -> RunState:
    """Return the state with the reference, and stopped by a denial. (Source: apply_event of Goals and State.)"""
    refs = kept(state.memory.approval_refs, event.approval_id)
    about = next((item for item in state.approvals if item.id == event.approval_id), None)
    # Without the agent's versions of the checks, the round is red and the run goes on.
    goes_on = state.plan.approvals.on_deny != "stop" or (about is not None and about.kind == "checks")
    stops = event.decision != "approved" and not goes_on
    return with_memory(state, approval_refs=refs, stop_reason="blocked" if stops else None)


def _said(state: RunState, decided: Approval) -> RunState:
    """Return the state with a message about the decision, if the run ended waiting for it."""
    if state.stop_reason is not StopReason.APPROVAL_REQUIRED:
        return state
    if state.waiting:
        left = ", ".join(item.id for item in state.waiting)
        return with_fields(state, message=f"{left}: still waits for a person\ngoal approve {state.goal.run_id} ID")
    by = f" by {decided.by}" if decided.by else ""
    said = f"{decided.id} was {decided.decision}{by}" if decided.decision != "expired" else f"{decided.id} has expired"
    return with_fields(state, message=f"{said}\ngoal resume {state.goal.run_id} goes on")


def _undone(state: RunState, approval: Approval) -> RunState:
    """Return the state in which the attempt failed, with the person's reason as feedback."""
    feedback = refusal(approval)
    if state.verdict is not None:
        verdict = state.verdict.model_copy(update={"complete": False, "missing": feedback})
        state = with_fields(state, verdict=verdict)
    if state.attempts:
        attempt = state.attempts[-1].model_copy(update={"passed": False, "feedback": feedback})
        state = with_fields(state, attempts=(*state.attempts[:-1], attempt))
    return state


def asked(state: RunState, questions: tuple[str, ...]) -> RunState:
    """Return the state with more open questions, each once."""
    opened = state.memory.open_questions
    return with_memory(state, open_questions=tuple(dict.fromkeys((*opened, *questions)))) if questions else state


def answered(state: RunState, event: events.QuestionAnswered) -> RunState:
    """Return the state with the question closed; the answer is part of the next prompt."""
    left = tuple(question for question in state.memory.open_questions if question != event.question)
    closed = with_memory(state, open_questions=left)
    closed = with_evidence(closed, [event.evidence_ref], counted=event.observation is not None)
    closed = _questions_said(closed, event)
    if event.observation is None:  # a tool result contained the answer
        return closed
    told = state.interruption or Interruption()
    answers = (*told.answers, (event.question, event.answer))
    return with_fields(closed, interruption=told.model_copy(update={"answers": answers}))


def _questions_said(state: RunState, event: events.QuestionAnswered) -> RunState:
    """Return the state with a message about the remaining questions, if the run ended with open ones."""
    if state.stop_reason is not StopReason.QUESTION_OPEN:
        return state
    run, left = state.goal.run_id, state.memory.open_questions
    if left:
        return with_fields(state, message="\n".join(["only a person can answer:", *left, f'goal answer {run} "..."']))
    by = f" by {event.by}" if event.by else ""
    return with_fields(state, message=f"the question was answered{by}\ngoal resume {run} goes on")
