"""People in a run: what waits for them, and what they said. Owns asking and recording; decides nothing itself."""

from __future__ import annotations

from typing import Literal

from goalrunner import events, policy
from goalrunner.driver.journal import Journal
from goalrunner.errors import ApprovalDenied, ApprovalPending
from goalrunner.model.approvals import ApprovalKind
from goalrunner.ports import ApprovalRequest, Parts
from goalrunner.state.run_state import Approval

TOLD = "The owner of this run denied it{reason}. Do not try it again in another way; go on without it, or say why you cannot."


class People:
    """Asks whoever is there. Everything that waits, and every decision, is in the log before anything is done."""

    def __init__(self, parts: Parts, journal: Journal) -> None:
        self._parts = parts
        self._journal = journal

    async def permit(
        self, tool_call_id: str, kind: Literal["shell", "write"], text: str, preview: str = ""
    ) -> str | None:
        """None: go ahead; a text: it is denied, and the agent is told. Raises ApprovalPending and ApprovalDenied."""
        state = self._journal.state
        rule = policy.rule_for(policy.Action(kind, text), state.plan.approvals, state.goal.risk_class)
        if not rule:
            return None
        known = state.approval_of(tool_call_id)
        approval = known or self._request(kind, text, rule, tool_call_id=tool_call_id)
        decided = await self._decided(approval, preview)
        if not decided.refused:
            return None
        if state.plan.approvals.on_deny == "stop":
            raise ApprovalDenied(policy.denied(decided).message, decided.id)
        return TOLD.format(reason=f": {decided.reason}" if decided.reason else "")

    async def completion(self, action: str, rule: str) -> None:
        """Let a person decide on what is proven. Raises ApprovalPending."""
        state = self._journal.state
        snapshot = state.snapshot.id if state.snapshot else ""
        approval = state.completion or self._request("complete", action, rule, snapshot=snapshot)
        await self._decided(approval, "")

    def _request(
        self, kind: ApprovalKind, action: str, rule: str, *, tool_call_id: str = "", snapshot: str = ""
    ) -> Approval:
        state = self._journal.state
        self._journal.append(
            events.ApprovalRequested(
                approval_id=f"a{state.requested + 1}",
                kind=kind,
                action=self._parts.redact(action),
                rule=rule,
                tool_call_id=tool_call_id,
                snapshot=snapshot,
                evidence_refs=state.memory.evidence_refs[-10:],
                expires_at=policy.expires_at(state.plan.approvals, self._parts.clock.now()),
            )
        )
        return self._journal.state.approvals[-1]

    async def _decided(self, approval: Approval, preview: str) -> Approval:
        """The approval with its decision. Raises ApprovalPending where nobody is there."""
        if approval.decision is None and self._is_late(approval):
            self._journal.append(events.ApprovalRecorded(approval_id=approval.id, decision="expired"))
        elif approval.decision is None:
            approver = self._parts.approver
            answer = await approver.approve(ApprovalRequest(approval, preview)) if approver else None
            if answer is None:
                raise ApprovalPending(f"{approval.id} waits for a person: {approval.action}")
            recorded = events.ApprovalRecorded(
                approval_id=approval.id, decision=answer.decision, by=answer.by, reason=answer.reason
            )
            self._journal.append(recorded)
        return next(item for item in reversed(self._journal.state.approvals) if item.id == approval.id)

    def _is_late(self, approval: Approval) -> bool:
        return approval.expires_at is not None and self._parts.clock.now().isoformat() > approval.expires_at
