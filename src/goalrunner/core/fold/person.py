"""What a person decides, answers and writes, and what still waits."""

from __future__ import annotations

from collections.abc import Callable

from goalrunner.core import events
from goalrunner.core.fold.check_reviews import checks_decided
from goalrunner.core.fold.rounds import refusal_feedback
from goalrunner.core.fold.usage import account_in_flight
from goalrunner.core.labels import Label
from goalrunner.core.outcome import StopReason
from goalrunner.core.run_state import KEPT, Approval, Interruption, RunState


def approval_requested(
    state: RunState, event: events.ApprovalRequested, at: str
) -> RunState:
    """Return the state with an approval that was requested at a time (ISO 8601).

    It replaces an older one for the same action.
    """

    def is_replaced(item: Approval) -> bool:
        if event.kind in ("complete", "checks"):
            return item.kind == event.kind
        return item.tool_call_id == event.tool_call_id

    approval = Approval(
        id=event.approval_id,
        kind=event.kind,
        action=event.action,
        rule=event.rule,
        requested_at=at,
        expires_at=event.expires_at,
        evidence_refs=event.evidence_refs,
        tool_call_id=event.tool_call_id,
        snapshot=event.snapshot,
        preview=event.preview,
    )
    state = with_withdrawn(state, is_replaced)
    return state.replace(
        approvals=(*state.approvals, approval)[-KEPT:],
        requested=state.requested + 1,
        awaiting=account_in_flight(state),
    )


def with_withdrawn(state: RunState, about: Callable[[Approval], bool]) -> RunState:
    """Return the state in which waiting approvals of an action are withdrawn.

    They are those for which `about` is true.
    """
    return state.with_approvals(
        lambda item: item.decision is None and about(item), decision="withdrawn"
    )


def approval_recorded(
    state: RunState, event: events.ApprovalRecorded, at: str
) -> RunState:
    """Return the state after a decision at a time (ISO 8601).

    Only the first decision on an approval counts. A denial stops the working memory.
    (Source: apply_event of Goals and State.)
    """
    before = _approval(state, event.approval_id)
    references = (*state.memory.approval_refs, event.approval_id)[-KEPT:]
    state = state.with_memory(
        approval_refs=references,
        stop_reason="blocked" if _blocks(state, event, before) else None,
    )
    # Two people may decide at once, each at a terminal of their own.
    if before is None or before.decision is not None:
        return state
    state = state.with_approvals(
        lambda item: item.id == event.approval_id,
        decision=event.decision,
        by=event.by,
        reason=event.reason,
        guarded=event.guarded,
        decided_at=at,
    )
    if event.decision == "approved" and not event.guarded:
        state = state.with_label(Label.UNGUARDED)
    state = _with_message(state, _decision_in_words(event))
    approval = _approval(state, event.approval_id)
    assert approval is not None
    return _with_consequence(state, event, approval)


def _approval(state: RunState, identifier: str) -> Approval | None:
    for approval in state.approvals:
        if approval.id == identifier:
            return approval
    return None


def _blocks(
    state: RunState, event: events.ApprovalRecorded, approval: Approval | None
) -> bool:
    """Return whether a decision stops the run."""
    if event.decision == "approved" or state.plan.approvals.on_deny != "stop":
        return False
    # Without the agent's versions of the checks, the round is red and the run goes on.
    return approval is None or approval.kind != "checks"


def _decision_in_words(event: events.ApprovalRecorded) -> str:
    if event.decision == "expired":
        return f"{event.approval_id} has expired"
    by = f" by {event.by}" if event.by else ""
    return f"{event.approval_id} was {event.decision}{by}"


def _with_consequence(
    state: RunState, event: events.ApprovalRecorded, approval: Approval
) -> RunState:
    """Return the state with what follows from a decision for the round at hand."""
    if approval.kind == "checks":
        return checks_decided(state, approval)
    if approval.kind != "complete":
        return state
    if approval.refused:
        return _with_completion_refused(state, approval)
    if event.changed and event.snapshot is not None:
        # The workspace changed after the approval: it is checked, and approved, again.
        return state.replace(phase=state.unchecked, snapshot=event.snapshot)
    return state


def _with_completion_refused(state: RunState, approval: Approval) -> RunState:
    """Return the state in which the round failed.

    The person's reason is the feedback.
    """
    if state.verdict is None:
        return state
    missing = refusal_feedback(approval)
    verdict = state.verdict.model_copy(update={"complete": False, "missing": missing})
    attempts = state.attempts
    if attempts:
        failed = attempts[-1].model_copy(update={"passed": False, "feedback": missing})
        attempts = (*attempts[:-1], failed)
    return state.replace(verdict=verdict, attempts=attempts)


def question_opened(state: RunState, event: events.QuestionOpened) -> RunState:
    return with_questions(state, (event.question,)).replace(asking=True)


def with_questions(state: RunState, questions: tuple[str, ...]) -> RunState:
    """Return the state with more open questions, each once."""
    questions = tuple(dict.fromkeys((*state.memory.open_questions, *questions)))
    return state.with_memory(open_questions=questions)


def question_answered(state: RunState, event: events.QuestionAnswered) -> RunState:
    """Return the state with the question closed; the next prompt has the answer."""
    still_open = [
        question
        for question in state.memory.open_questions
        if question != event.question
    ]
    state = state.with_memory(open_questions=tuple(still_open))
    is_new = event.observation is not None
    state = state.with_evidence([event.evidence_ref], new=is_new)
    if not event.guarded:
        state = state.with_label(Label.UNGUARDED_ANSWER)
    by = f" by {event.by}" if event.by else ""
    state = _with_message(state, f"the question was answered{by}")
    if not is_new:
        # The result of a tool contained the answer, so the agent has it already.
        return state
    interruption = state.interruption or Interruption()
    answers = (*interruption.answers, (event.question, event.answer))
    return state.replace(
        interruption=interruption.model_copy(update={"answers": answers})
    )


def note_given(state: RunState, event: events.NoteGiven) -> RunState:
    return with_note(state, event.text).replace(note_id=event.note_id)


def with_note(state: RunState, note: str) -> RunState:
    """Return the state with a note for the agent's next prompt.

    It follows the notes that the agent has not got yet.
    """
    interruption = state.interruption or Interruption()
    notes = "\n\n".join(filter(None, (interruption.note, note)))
    return state.replace(interruption=interruption.model_copy(update={"note": notes}))


def _with_message(state: RunState, decision: str) -> RunState:
    """Return the state with a message about a decision, and what still waits.

    The state of a run that did not end waiting for a person stays as it is.
    """
    if state.stop_reason not in (
        StopReason.APPROVAL_REQUIRED,
        StopReason.QUESTION_OPEN,
    ):
        return state
    run_id = state.goal.run_id
    lines = []
    for approval in state.waiting:
        command = f"goal approve {run_id} {approval.id}"
        lines.append(f"{approval.id} still waits for a person: {command}")
    lines += [
        f'still open: {question}\ngoal answer {run_id} "..."'
        for question in state.memory.open_questions
    ]
    if not lines:
        lines.append(state.way_on if state.handed else f"{state.way_on} goes on")
    return state.replace(message="\n".join([decision, *lines]))
