"""Asking a person for approvals and answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from goalrunner.core import events
from goalrunner.core.agent_ports import ApprovalAnswer, ApprovalRequest, QuestionReply
from goalrunner.core.approval_rules import expires_at, is_late
from goalrunner.core.endings import end_by_denial
from goalrunner.core.errors import ApprovalDenied, ApprovalPending, WorkspaceError
from goalrunner.core.goal_tables import ApprovalKind
from goalrunner.core.observation import ArtifactRef
from goalrunner.core.run_state import Approval
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.parts import Parts
from goalrunner.engine.person_decisions import (
    answer_in,
    decision_on,
    is_settled,
    record_answer,
    record_given,
)
from goalrunner.engine.snapshot_tracker import SnapshotTracker

if TYPE_CHECKING:
    from goalrunner.records.decision_files import GivenDecision

T = TypeVar("T")

_POLL_INTERVAL = 0.25
"""Seconds between two looks for a decision from another terminal."""
_PREVIEW = 200_000
"""Bytes of a patch that a person sees."""

DENIAL = (
    "The owner of this run denied it{reason}. Do not try it again in another way;"
    " go on without it, or say why you cannot."
)


ActionKind = Literal["shell", "write"]


class ApprovalGate:
    """Asks the approver.

    Each request and each decision is in the log before anything is done.
    """

    def __init__(
        self, parts: Parts, journal: RunJournal, tracker: SnapshotTracker
    ) -> None:
        self._parts = parts
        self._journal = journal
        self._tracker = tracker

    async def permit(
        self, rule: str, tool_call_id: str, kind: ActionKind, text: str, preview: str
    ) -> str | None:
        """Return None if the action is allowed, or why it is denied.

        Raise ApprovalPending and ApprovalDenied.
        """
        redacted_preview = self._parts.redact(preview)
        # The log must not contain secrets, nor texts of any length.
        preview_ref: ArtifactRef | None = None
        if redacted_preview:
            data = redacted_preview.encode(errors="replace")
            preview_ref = self._journal.artifacts.put(data)
        state = self._journal.state
        approval = state.newest_approval(
            lambda item: item.tool_call_id == tool_call_id and not item.used
        )
        # A call that was requested before a crash is not requested again; but the
        # agent may have sent another action under the same id.
        action = (kind, self._parts.redact(text), preview_ref)
        if approval is None or action != (
            approval.kind,
            approval.action,
            approval.preview,
        ):
            approval = self._request(
                kind, text, rule, tool_call_id=tool_call_id, preview=preview_ref
            )
        decided = await self._decided(ApprovalRequest(approval, redacted_preview))
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
        # A command in another terminal computes the patch itself.
        if self._parts.approver is not None and approval.decision is None:
            patch = ""
            # The person still sees the changed paths.
            with contextlib.suppress(WorkspaceError):
                patch = await self._tracker.patch(state.base, state.snapshot)
            changed = await self._tracker.changed(state.base, state.snapshot)
            request = ApprovalRequest(
                approval, self._parts.redact(patch), changed, self._journal.evidence()
            )
        await self._decided(request)

    async def checks(self, action: str, rule: str) -> None:
        """Let a person decide whether the agent's versions of the checks count.

        Raise ApprovalPending.
        """
        state = self._journal.state
        changed = state.changed_checks
        assert changed is not None, "only changed checks are reviewed"
        approval = next(
            (
                item
                for item in reversed(state.waiting)
                if item.kind == "checks" and item.snapshot == changed.key
            ),
            None,
        )
        if approval is None:
            approval = self._request(
                "checks", action, rule, snapshot=changed.key, preview=changed.diff
            )
        head = b""
        if changed.diff:
            head, _ = self._journal.artifacts.ends(changed.diff, _PREVIEW)
        preview = head.decode(errors="replace")
        await self._decided(
            ApprovalRequest(approval, preview, changed=changed.paths, checks=changed)
        )

    async def answer(self, question: str) -> QuestionReply | None:
        """Return a person's answer to a question.

        Return None if no person is available; the question then stays open.
        """
        redacted = self._parts.redact(question)

        def answer_elsewhere() -> QuestionReply | None:
            # The other terminal shows the text of the log.
            return self._answer_elsewhere((question, redacted))

        answer = answer_elsewhere()
        approver = self._parts.approver
        if answer is not None or approver is None:
            return answer
        self._journal.save()
        with self._journal.suspended():
            return await self._first(approver.answer(redacted), answer_elsewhere)

    def record_decisions_elsewhere(self) -> None:
        """Record answers and notes from other terminals.

        A decision on an approval is recorded where the run needs it.
        """
        if self._parts.decision_files is not None:
            record_given(self._journal, self._parts.decision_files)

    def settle(self) -> None:
        """Remove the files of decisions that are recorded."""
        files = self._parts.decision_files
        if files is None:
            return
        for path, decision in files.pending():
            if is_settled(decision, self._journal.state):
                files.remove(path)

    def _decisions_elsewhere(self) -> Iterator[GivenDecision]:
        """Yield the decisions from other terminals, the oldest first."""
        if self._parts.decision_files is not None:
            for _, decision in self._parts.decision_files.pending():
                yield decision

    def _answer_elsewhere(self, questions: tuple[str, ...]) -> QuestionReply | None:
        """Return the answer from another terminal to one of these questions."""
        for decision in self._decisions_elsewhere():
            if decision.kind == "answer" and decision.question in questions:
                return QuestionReply(decision.text, decision.by, typed=True)
        return None

    def _approval_elsewhere(self, approval: Approval) -> ApprovalAnswer | None:
        """Return the decision on an approval from another terminal, if there is one."""
        for decision in self._decisions_elsewhere():
            if decision.kind == "approval" and decision.approval_id == approval.id:
                return answer_in(decision)
        return None

    async def _first(
        self, asking: Coroutine[Any, Any, T | None], elsewhere: Callable[[], T | None]
    ) -> T | None:
        """Return the first answer, from the run's own terminal or another one.

        `asking` asks at the run's own terminal; `elsewhere` returns an answer from
        another terminal, or None as long as there is none.
        """
        task = asyncio.ensure_future(asking)
        try:
            while True:
                done, _ = await asyncio.wait((task,), timeout=_POLL_INTERVAL)
                if done:
                    return task.result()
                answer = elsewhere()
                if answer is not None:
                    return answer
        finally:
            if not task.done():
                # The terminal must not take what is typed later as an answer.
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
        self, kind: ApprovalKind, action: str, rule: str, **fields: Any
    ) -> Approval:
        """Record a request; `fields` are other fields of the event."""
        state = self._journal.state
        if kind == "complete":
            # The evidence that the verdict cites.
            refs = [row.observation for row in self._journal.evidence()]
        else:
            refs = list(state.memory.evidence_refs[-10:])
        self._journal.append(
            events.ApprovalRequested(
                approval_id=f"a{state.requested + 1}",
                kind=kind,
                action=action,
                rule=rule,
                **fields,
                evidence_refs=tuple(dict.fromkeys(filter(None, refs))),
                expires_at=expires_at(state.plan.approvals, self._parts.clock.now()),
            )
        )
        return self._journal.state.approvals[-1]

    async def _decided(self, request: ApprovalRequest) -> Approval:
        """Return the approval with its decision.

        Raise ApprovalPending if no person is available.
        """
        approval = request.approval
        if approval.decision is None:
            answer = await self._ask(request)
            now = self._parts.clock.now()
            if answer is None and not is_late(approval.expires_at, now):
                raise ApprovalPending(
                    f"{approval.id} waits for a person: {approval.action}"
                )
            decision = decision_on(approval, answer, now, self._journal.state)
            update = await self._changes_since(approval, decision)
            self._journal.append(decision.model_copy(update=update))
            self.settle()
            self._journal.save()
        approvals = reversed(self._journal.state.approvals)
        return next(item for item in approvals if item.id == approval.id)

    async def _ask(self, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Return a person's decision; None without one, or if the time is over."""
        approval, approver = request.approval, self._parts.approver
        answer = self._approval_elsewhere(approval)
        if answer is not None or approver is None:
            return answer
        if is_late(approval.expires_at, self._parts.clock.now()):
            return None
        self._journal.save()
        with self._journal.suspended():
            return await self._first(
                approver.approve(request), lambda: self._approval_elsewhere(approval)
            )

    async def _changes_since(
        self, approval: Approval, decision: events.ApprovalRecorded
    ) -> dict[str, Any]:
        """Return what changed in the workspace since the request to accept a result.

        The changes are fields of the decision.
        """
        # A person may take hours to answer, and accepts what was shown.
        proven = self._journal.state.snapshot
        is_acceptance = approval.kind == "complete" and decision.decision == "approved"
        if not is_acceptance or proven is None:
            return {}
        now = await self._tracker.take("approval")
        changed = await self._tracker.changed(proven, now)
        return {"changed": changed, "snapshot": now} if changed else {}
