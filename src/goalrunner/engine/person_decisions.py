"""Decisions, answers and notes of people as events."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from goalrunner.core import events
from goalrunner.core.agent_ports import ApprovalAnswer, QuestionReply
from goalrunner.core.approval_rules import is_late
from goalrunner.core.observation import OWNER, Observation
from goalrunner.core.run_state import Approval, RunState
from goalrunner.engine.journal import RunJournal

if TYPE_CHECKING:
    from goalrunner.records.decision_files import (
        DecisionFiles,
        GivenApproval,
        GivenDecision,
    )


def decision_on(
    approval: Approval, answer: ApprovalAnswer | None, now: datetime, state: RunState
) -> events.ApprovalRecorded:
    """Return the event of a person's decision.

    The decision is "expired" if there is no answer or it is too late.
    """
    if answer is None or is_late(approval.expires_at, now):
        return events.ApprovalRecorded(approval_id=approval.id, decision="expired")
    return events.ApprovalRecorded(
        approval_id=approval.id,
        decision=answer.decision,
        by=answer.by,
        reason=answer.reason,
        guarded=is_guarded(answer, state),
        evidence_refs=approval.evidence_refs,
    )


def is_guarded(decision: ApprovalAnswer | QuestionReply, state: RunState) -> bool:
    """Return whether a person must have given a decision or an answer.

    An agent without a sandbox could have typed the command itself.
    """
    return not decision.typed or state.sandbox != "none"


def answer_in(decision: GivenApproval) -> ApprovalAnswer:
    """Return a decision that a person gave with a command."""
    return ApprovalAnswer(decision.decision, decision.by, decision.reason, typed=True)


def record_given(journal: RunJournal, files: DecisionFiles) -> None:
    """Record answers and notes from other terminals, each once, and remove their files.

    Files of approvals for which no decision is needed any more are removed as well.
    """
    for path, decision in files.pending():
        if not is_settled(decision, journal.state):
            if decision.kind == "approval":
                # It is recorded when the run reaches the action.
                continue
            if decision.kind == "answer":
                reply = QuestionReply(decision.text, decision.by, typed=True)
                record_answer(journal, decision.question, reply)
            else:
                note = events.NoteGiven(
                    note_id=decision.note_id, text=decision.text, by=decision.by
                )
                journal.append(note)
        files.remove(path)


def is_settled(decision: GivenDecision, state: RunState) -> bool:
    """Return whether a decision is recorded, or came too late."""
    if decision.kind == "answer":
        return decision.question not in state.memory.open_questions
    if decision.kind == "note":
        return decision.note_id == state.note_id
    return all(approval.id != decision.approval_id for approval in state.waiting)


def record_answer(journal: RunJournal, question: str, reply: QuestionReply) -> None:
    """Record a person's answer as an observation, and close the question."""
    observation = Observation(
        id=journal.next_observation(),
        source=OWNER,
        facts=answered_by(reply),
        command=question,
        round=journal.state.round,
        output=journal.artifacts.put(reply.text.encode(errors="replace")),
    )
    journal.append(
        events.QuestionAnswered(
            question=question,
            answer=reply.text,
            evidence_ref=observation.id,
            observation=observation,
            by=reply.by,
            guarded=is_guarded(reply, journal.state),
        )
    )


def answered_by(reply: QuestionReply) -> tuple[str, ...]:
    """Return the fact that a person answered."""
    return (f"answered by {reply.by}",) if reply.by else ("answered",)
