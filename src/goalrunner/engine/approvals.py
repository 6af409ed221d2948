"""Asking a person for approvals and answers, and recording them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from goalrunner.core import events
from goalrunner.core.agent_ports import ApprovalAnswer, ApprovalRequest, QuestionReply
from goalrunner.core.approval_rules import expires_at, is_late
from goalrunner.core.endings import end_by_denial
from goalrunner.core.errors import ApprovalDenied, ApprovalPending, WorkspaceError
from goalrunner.core.goal_tables import ApprovalKind
from goalrunner.core.observation import OWNER, Observation
from goalrunner.core.run_state import Approval, RunState
from goalrunner.engine.journal import Parts, RunJournal
from goalrunner.engine.snapshot_tracker import SnapshotTracker

if TYPE_CHECKING:
    from goalrunner.records.decision_files import (
        DecisionFiles,
        GivenApproval,
        GivenDecision,
    )

T = TypeVar("T")

_LOOK = 0.25
"""Seconds between two looks for a decision from another terminal."""
_PREVIEW = 200_000  # bytes of a patch that is shown to a person

DENIAL = "The owner of this run denied it{reason}. Do not try it again in another way; go on without it, or say why you cannot."


ActionKind = Literal["shell", "write"]


class ApprovalGate:
    """Asks the approver. Each request and each decision is in the log before anything is done."""

    def __init__(
        self, parts: Parts, journal: RunJournal, tracker: SnapshotTracker
    ) -> None:
        self._parts = parts
        self._journal = journal
        self._tracker = tracker

    async def permit(
        self, rule: str, tool_call_id: str, kind: ActionKind, text: str, preview: str
    ) -> str | None:
        """Return None if the action is allowed, or why it is denied. Raise ApprovalPending and ApprovalDenied."""
        state = self._journal.state
        shown = self._parts.redact(preview)
        kept = (
            self._journal.artifacts.put(shown.encode(errors="replace"))
            if shown
            else None
        )
        approval = state.newest_approval(
            lambda item: item.tool_call_id == tool_call_id and not item.used
        )
        asked = (
            (approval.kind, approval.action, approval.preview)
            if approval is not None
            else None
        )
        if approval is None or asked != (
            kind,
            self._parts.redact(text),
            kept,
        ):  # it was not requested before a crash
            approval = self._request(
                kind, text, rule, tool_call_id=tool_call_id, preview=kept
            )
        decided = await self._decided(ApprovalRequest(approval, shown))
        if not decided.refused:
            return None
        message = DENIAL.format(reason=f": {decided.reason}" if decided.reason else "")
        if state.plan.approvals.on_deny == "stop":
            raise ApprovalDenied(end_by_denial(decided).message, decided.id, message)
        return message

    async def completion(self, action: str, rule: str) -> None:
        """Let a person decide whether the result is accepted. Raise ApprovalPending."""
        state = self._journal.state
        approval = state.completion or self._request(
            "complete", action, rule, snapshot=state.subject
        )
        request = ApprovalRequest(approval)
        if self._parts.approver is not None and approval.decision is None:
            patch = ""
            with contextlib.suppress(WorkspaceError):  # the paths are still shown
                patch = await self._tracker.patch(state.base, state.snapshot)
            changed = await self._tracker.changed(state.base, state.snapshot)
            request = ApprovalRequest(
                approval, self._parts.redact(patch), changed, self._journal.evidence()
            )
        await self._decided(request)

    async def checks(self, action: str, rule: str) -> None:
        """Let a person decide whether the agent's versions of the checks count. Raise ApprovalPending."""
        state = self._journal.state
        changed = state.changed_checks
        assert changed is not None  # that is why a person is asked
        known = (
            item
            for item in reversed(state.waiting)
            if item.kind == "checks" and item.snapshot == changed.key
        )
        approval = next(known, None) or self._request(
            "checks", action, rule, snapshot=changed.key, preview=changed.diff
        )
        head = (
            self._journal.artifacts.ends(changed.diff, _PREVIEW)[0]
            if changed.diff
            else b""
        )
        preview = head.decode(errors="replace")
        await self._decided(
            ApprovalRequest(approval, preview, changed=changed.paths, checks=changed)
        )

    async def answer(self, question: str) -> QuestionReply | None:
        """Return a person's answer to a question; None if no person is available, and the question stays open."""
        shown = self._parts.redact(question)
        if (
            given := self._given_answer(question, shown)
        ) is not None or self._parts.approver is None:
            return given
        self._journal.save()
        with self._journal.suspended():
            return await self._first(
                self._parts.approver.answer(shown),
                lambda: self._given_answer(question, shown),
            )

    def take_over(self) -> None:
        """Record answers and notes from other terminals. An approval is taken over where it is needed."""
        if self._parts.given is not None:
            record_given(self._journal, self._parts.given)

    def settle(self) -> None:
        """Remove the files of decisions that are recorded."""
        files = self._parts.given
        if files is None:
            return
        for path, given in files.pending():
            if is_settled(given, self._journal.state):
                files.remove(path)

    def _given_answer(self, *questions: str) -> QuestionReply | None:
        """Return the answer from another terminal to a question in one of these forms; None if there is none."""
        for _, given in (
            self._parts.given.pending() if self._parts.given is not None else ()
        ):
            if given.kind == "answer" and given.question in questions:
                return QuestionReply(given.text, given.by)
        return None

    def _given_approval(self, approval: Approval) -> ApprovalAnswer | None:
        """Return the decision on an approval from another terminal; None if there is none."""
        for _, given in (
            self._parts.given.pending() if self._parts.given is not None else ()
        ):
            if given.kind == "approval" and given.approval_id == approval.id:
                return answer_in(given)
        return None

    async def _first(
        self, asking: Coroutine[Any, Any, T | None], given: Callable[[], T | None]
    ) -> T | None:
        """Return the answer at the run's own terminal, or the one that is `given` at another terminal before."""
        task = asyncio.ensure_future(asking)
        try:
            while not (await asyncio.wait((task,), timeout=_LOOK))[0]:
                if (answer := given()) is not None:
                    return answer
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def answers_all(self) -> bool:
        """Ask all open questions; return whether all were answered."""
        for question in self._journal.state.memory.open_questions:
            reply = await self.answer(question)
            if reply is None:
                return False
            record_answer(self._journal, question, reply)
        return True

    def _request(
        self, kind: ApprovalKind, action: str, rule: str, **about: Any
    ) -> Approval:
        """Record a request; `about` are other fields of the event."""
        state = self._journal.state
        cited = [row.observation for row in self._journal.evidence()]  # by the verdict
        if kind != "complete":
            cited = list(state.memory.evidence_refs[-10:])
        self._journal.append(
            events.ApprovalRequested(
                approval_id=f"a{state.requested + 1}",
                kind=kind,
                action=action,
                rule=rule,
                **about,
                evidence_refs=tuple(dict.fromkeys(filter(None, cited))),
                expires_at=expires_at(state.plan.approvals, self._parts.clock.now()),
            )
        )
        return self._journal.state.approvals[-1]

    async def _decided(self, request: ApprovalRequest) -> Approval:
        """Return the approval with its decision. Raise ApprovalPending if no person is available."""
        approval, approver = request.approval, self._parts.approver
        if approval.decision is None:
            answer = self._given_approval(approval)
            if (
                answer is None
                and approver is not None
                and not is_late(approval.expires_at, self._parts.clock.now())
            ):
                self._journal.save()
                with self._journal.suspended():
                    answer = await self._first(
                        approver.approve(request),
                        lambda: self._given_approval(approval),
                    )
            now = self._parts.clock.now()
            if answer is None and not is_late(approval.expires_at, now):
                raise ApprovalPending(
                    f"{approval.id} waits for a person: {approval.action}"
                )
            decided = decision_on(approval, answer, now, self._journal.state)
            self._journal.append(
                decided.model_copy(update=await self._changes_since(approval, decided))
            )
            self.settle()
            self._journal.save()
        return next(
            item
            for item in reversed(self._journal.state.approvals)
            if item.id == approval.id
        )

    async def _changes_since(
        self, approval: Approval, decided: events.ApprovalRecorded
    ) -> dict[str, Any]:
        """Return the changes in the workspace since the request to accept a result, as fields of the decision."""
        proven = self._journal.state.snapshot
        if (
            approval.kind != "complete"
            or decided.decision != "approved"
            or proven is None
        ):
            return {}
        now = await self._tracker.take("approval")
        changed = await self._tracker.changed(proven, now)
        return {"changed": changed, "snapshot": now} if changed else {}


def decision_on(
    approval: Approval, answer: ApprovalAnswer | None, now: datetime, state: RunState
) -> events.ApprovalRecorded:
    """Return the event of a person's decision, which is "expired" if there is no answer or it is too late."""
    if answer is None or is_late(approval.expires_at, now):
        return events.ApprovalRecorded(approval_id=approval.id, decision="expired")
    return events.ApprovalRecorded(
        approval_id=approval.id,
        decision=answer.decision,
        by=answer.by,
        reason=answer.reason,
        guarded=not answer.typed or state.sandbox != "none",
        evidence_refs=approval.evidence_refs,
    )


def answer_in(given: GivenApproval) -> ApprovalAnswer:
    """Return a decision that a person gave with a command."""
    return ApprovalAnswer(given.decision, given.by, given.reason, typed=True)


def record_given(journal: RunJournal, files: DecisionFiles) -> None:
    """Record answers and notes, each once, and remove their files, and those of approvals that wait no more."""
    for path, given in files.pending():
        if not is_settled(given, journal.state):
            if given.kind == "answer":
                record_answer(
                    journal, given.question, QuestionReply(given.text, given.by)
                )
            elif given.kind == "note":
                journal.append(
                    events.NoteGiven(
                        note_id=given.note_id, text=given.text, by=given.by
                    )
                )
            else:
                continue
        files.remove(path)


def is_settled(given: GivenDecision, state: RunState) -> bool:
    """Return whether a decision is recorded, or came too late."""
    if given.kind == "answer":
        return given.question not in state.memory.open_questions
    if given.kind == "note":
        return given.note_id == state.note_id
    return all(item.id != given.approval_id for item in state.waiting)


def record_answer(journal: RunJournal, question: str, reply: QuestionReply) -> None:
    """Record a person's answer as an observation for agent and judge, and close the question."""
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
        )
    )


def answered_by(reply: QuestionReply) -> tuple[str, ...]:
    """Return the fact that a person answered."""
    return (f"answered by {reply.by}",) if reply.by else ("answered",)
