"""How approvals and questions change the state of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from goalrunner.core import events
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import KEPT, Approval, BudgetState, Interruption, Phase, RunState
from goalrunner.core.verdict import GoalVerdict


def with_fields(state: RunState, **changes: Any) -> RunState:
    """The state with other fields."""
    return state.model_copy(update=changes)


def with_memory(state: RunState, **changes: Any) -> RunState:
    """The state with other fields of its working memory."""
    return with_fields(state, memory=state.memory.model_copy(update=changes))


def with_budget(state: RunState, **changes: Any) -> RunState:
    """The state with other fields of its budget."""
    budget: BudgetState = state.memory.budget_state.model_copy(update=changes)
    return with_memory(state, budget_state=budget)


def with_evidence(state: RunState, ids: Sequence[str], *, counted: bool = True) -> RunState:
    """The state with more references to evidence; `counted` where they are new observations."""
    refs = state.memory.evidence_refs
    for identifier in ids:
        refs = kept(refs, identifier)
    numbered = state.observations + (len(ids) if counted else 0)
    newest = ids[-1] if ids else state.seen
    return with_fields(with_memory(state, evidence_refs=refs), observations=numbered, seen=newest)


def kept(refs: tuple[str, ...], new: str) -> tuple[str, ...]:
    """The newest references with one more."""
    return (*refs[-KEPT + 1 :], new)


UNGUARDED = "unguarded approval"
"""Label of a run with an approval that the agent could have given itself."""


def checks_changed_label(paths: Sequence[str]) -> str:
    """Return the label of a run that counted the agent's versions of these checks."""
    return f"checks changed: {', '.join(paths)}"


UNASKED_LABEL = "unasked actions"
"""Label of a run whose agent did without asking what a person was to decide on."""

REPORTED_LABEL = "rests on reports"
"""Label of a run without a validator whose agent reports itself what it did."""


def approval_requested(state: RunState, event: events.ApprovalRequested, at: str) -> RunState:
    """Something waits from now on. `at` is ISO 8601. An older request for the same call, or completion, is withdrawn."""
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
    """A decision counts once: what has been decided stays decided. A denied completion never was one."""
    state = _noted(state, event)
    waiting = next((item for item in state.waiting if item.id == event.approval_id), None)
    if waiting is None:
        return state
    decided = waiting.model_copy(
        update={
            "decision": event.decision,
            "decided_at": at,
            "by": event.by,
            "reason": event.reason,
            "guarded": event.guarded,
        }
    )
    approvals = tuple(decided if item.id == decided.id else item for item in state.approvals)
    if event.decision == "approved" and not event.guarded:
        state = labelled(state, UNGUARDED)
    state = _said(with_fields(state, approvals=approvals), decided)
    if decided.kind != "complete":
        return state
    if decided.refused:
        return _undone(state, decided)
    if event.changed and event.snapshot is not None:
        # What was approved is no longer what is there: it is checked, and asked about, once more.
        again = Phase.WORKED if state.round else Phase.READY
        return with_fields(state, phase=again, snapshot=event.snapshot)
    return state


def labelled(state: RunState, label: str) -> RunState:
    """What weakens the proof of this run, named once."""
    return state if label in state.labels else with_fields(state, labels=(*state.labels, label))


def withdrawn(state: RunState, about: Callable[[Approval], bool]) -> RunState:
    """The state in which nothing waits any more of what the approvals are `about`."""
    gone = {item.id for item in state.waiting if about(item)}
    return _with(state, lambda item: item.id in gone, decision="withdrawn") if gone else state


def begun(state: RunState, tool_call_id: str) -> RunState:
    """A tool call runs: its approval is used up, and never permits another one of the same id."""
    return _with(state, lambda item: item.tool_call_id == tool_call_id and item.decision is not None, used=True)


def turned_over(state: RunState) -> RunState:
    """The agent's turn is over: its tool calls are no longer there to be approved."""
    return withdrawn(state, lambda item: item.kind not in ("complete", "checks"))


def taken_up(state: RunState) -> RunState:
    """The run had ended for a denial and goes on all the same: it does not end for it once more."""
    return _with(state, lambda item: item.refused, told=True) if state.stop_reason is StopReason.DENIED else state


def accepted(state: RunState, verdict: GoalVerdict) -> GoalVerdict:
    """The verdict; not complete where a person has refused the completion of what is there."""
    refused = state.completion
    if not verdict.complete or refused is None or not refused.refused:
        return verdict
    return verdict.model_copy(update={"complete": False, "missing": refusal(refused)})


def refusal(approval: Approval) -> str:
    """What the agent is told of a completion that was refused."""
    said = f"{approval.decision}: {approval.reason}" if approval.reason else str(approval.decision)
    return f"the owner did not accept the result ({said})"


def _with(state: RunState, which: Callable[[Approval], bool], **changes: object) -> RunState:
    changed = tuple(item.model_copy(update=changes) if which(item) else item for item in state.approvals)
    return with_fields(state, approvals=changed) if changed != state.approvals else state


def _noted(state: RunState, event: events.ApprovalRecorded) -> RunState:
    """The reference, and what a denial stops. (Source: apply_event of Goals and State.)"""
    refs = (*state.memory.approval_refs[-KEPT + 1 :], event.approval_id)
    about = next((item for item in state.approvals if item.id == event.approval_id), None)
    # Without the agent's versions of the checks, the round is red and the run goes on.
    goes_on = state.plan.approvals.on_deny != "stop" or (about is not None and about.kind == "checks")
    stops = event.decision != "approved" and not goes_on
    memory = state.memory.model_copy(update={"approval_refs": refs, "stop_reason": "blocked" if stops else None})
    return state.model_copy(update={"memory": memory})


def _said(state: RunState, decided: Approval) -> RunState:
    """A run that ended waiting says what was decided, and no longer that it waits."""
    if state.stop_reason is not StopReason.APPROVAL_REQUIRED:
        return state
    if state.waiting:
        left = ", ".join(item.id for item in state.waiting)
        return with_fields(state, message=f"{left}: still waits for a person\ngoal approve {state.goal.run_id} ID")
    by = f" by {decided.by}" if decided.by else ""
    said = f"{decided.id} was {decided.decision}{by}" if decided.decision != "expired" else f"{decided.id} has expired"
    return with_fields(state, message=f"{said}\ngoal resume {state.goal.run_id} goes on")


def _undone(state: RunState, approval: Approval) -> RunState:
    """The attempt did not pass after all; the feedback is what the person said."""
    feedback = refusal(approval)
    changes: dict[str, object] = {}
    if state.verdict is not None:
        changes["verdict"] = state.verdict.model_copy(update={"complete": False, "missing": feedback})
    if state.attempts:
        attempt = state.attempts[-1].model_copy(update={"passed": False, "feedback": feedback})
        changes["attempts"] = (*state.attempts[:-1], attempt)
    return state.model_copy(update=changes)


def asked(state: RunState, questions: tuple[str, ...]) -> RunState:
    """The questions are open; one that is open already is not opened twice."""
    opened = state.memory.open_questions
    return with_memory(state, open_questions=tuple(dict.fromkeys((*opened, *questions)))) if questions else state


def answered(state: RunState, event: events.QuestionAnswered) -> RunState:
    """The question is closed, with the observation that holds the answer; the agent is still to be told of it."""
    left = tuple(question for question in state.memory.open_questions if question != event.question)
    closed = with_memory(state, open_questions=left)
    closed = with_evidence(closed, [event.evidence_ref], counted=event.observation is not None)
    closed = _questions_said(closed, event)
    if event.observation is None:  # a tool result said it to the agent already
        return closed
    told = state.interruption or Interruption()
    answers = (*told.answers, (event.question, event.answer))
    return with_fields(closed, interruption=told.model_copy(update={"answers": answers}))


def _questions_said(state: RunState, event: events.QuestionAnswered) -> RunState:
    """A run that ended with open questions says what is left of them."""
    if state.stop_reason is not StopReason.QUESTION_OPEN:
        return state
    run, left = state.goal.run_id, state.memory.open_questions
    if left:
        return with_fields(state, message="\n".join(["only a person can answer:", *left, f'goal answer {run} "..."']))
    by = f" by {event.by}" if event.by else ""
    return with_fields(state, message=f"the question was answered{by}\ngoal resume {run} goes on")
