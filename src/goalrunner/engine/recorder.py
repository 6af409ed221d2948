"""Recording of what an agent or a judge does: artifact first, then transcript, then event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from goalrunner.core.agent_ports import AgentRun, ProposedPlan, Recorded, ToolResult
from goalrunner.core.errors import BudgetExhausted
from goalrunner.core.events import (
    Account,
    AgentRan,
    AuditFailed,
    BlockReported,
    MessageRecorded,
    QuestionAnswered,
    QuestionOpened,
    SessionOpened,
    ToolCalled,
    ToolResultRecorded,
    UsageRecorded,
)
from goalrunner.core.limits import budget_spent
from goalrunner.core.messages import text_of
from goalrunner.core.observation import OWNER, Observation, source_of
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.ports import Message
from goalrunner.core.progress import settle_plan
from goalrunner.engine.approvals import Approvals, answered_by
from goalrunner.engine.journal import Journal
from goalrunner.engine.resumption import recorded
from goalrunner.engine.snapshot_tracker import SnapshotTracker
from goalrunner.engine.validation import OutputStore

_SMALL = 1_000_000
"""Bytes of an output in memory that are stored without a thread."""


class RunRecorder:
    """The port `Recorder` with a journal."""

    def __init__(
        self,
        journal: Journal,
        tracker: SnapshotTracker,
        approvals: Approvals,
        scratch: Callable[[str], Path],
        redact: Callable[[str], str],
    ) -> None:
        self._journal = journal
        self._tracker = tracker
        self._approvals = approvals
        self._scratch = scratch
        self._redact = redact

    def message(self, message: Message) -> None:
        """Write the transcript line, then the event."""
        ref = self._journal.transcript.append(message)
        has_text = bool(text_of(message.get("content")).strip())
        self._journal.append(MessageRecorded(role=message["role"], text=ref, has_text=has_text))

    async def permit(
        self, tool_call_id: str, kind: Literal["shell", "write"], text: str, preview: str = ""
    ) -> str | None:
        """Return None if the action is allowed, or why it is denied. Raise ApprovalPending and ApprovalDenied."""
        return await self._approvals.permit(tool_call_id, kind, text, preview)

    def tool_called(self, tool_call_id: str, tool: str, summary: str) -> None:
        """Record the intent before the effect."""
        self._journal.append(ToolCalled(tool_call_id=tool_call_id, tool=tool, summary=self._redact(summary)))

    async def tool_result(self, result: ToolResult) -> Recorded:
        """Store the whole output, take a snapshot if the workspace may have changed, and write the event.

        A question is asked first; its answer is the result.
        """
        if result.plan is not None:
            result = self._planned(result, result.plan)
        source, reply, question = source_of(result.tool), None, self._redact(result.command)
        if result.notice == "question":
            self._journal.append(QuestionOpened(question=question))
            reply = await self._approvals.answer(question)
        if reply is not None:
            said, facts = reply.text.encode(errors="replace"), answered_by(reply)
            source, result = OWNER, replace(result, output=said, facts=facts, summary="answered")
        if result.reported_by:  # the runner did not see the workspace around it: the whole round counts
            before, after = self._tracker.round_start, None
        else:
            before = self._tracker.last
            after = await self._tracker.take("tool") if result.writes else before
        artifacts = self._journal.artifacts
        store, output = OutputStore(artifacts), result.output
        if isinstance(output, Path):
            ref = await store.take(output)
        else:  # in a thread, so that the deadline is kept
            ref = artifacts.put(output) if len(output) < _SMALL else await asyncio.to_thread(artifacts.put, output)
        observation = Observation(
            id=self._journal.next_observation(),
            source=source,
            facts=result.facts,
            command=self._redact(result.command),
            round=self._journal.state.round,
            output=ref,
            before=before.id if before else None,
            after=after.id if after else None,
            path=result.path,
            reported_by=result.reported_by,
        )
        self._journal.append(
            ToolResultRecorded(
                tool_call_id=result.tool_call_id,
                evidence_ref=observation.id,
                observation=observation,
                duration=result.duration,
                summary=self._redact(result.summary),
            )
        )
        if result.notice == "blocked":
            self._journal.append(BlockReported(reason=self._redact(result.command)))
        if reply is not None:
            answered = QuestionAnswered(question=question, answer=reply.text, evidence_ref=observation.id, by=reply.by)
            self._journal.append(answered)
        store.settle()
        return recorded(observation, artifacts)

    def _planned(self, result: ToolResult, plan: ProposedPlan) -> ToolResult:
        """Record a plan; return the result for the agent. After a crash in between, the call counts as interrupted."""
        event, told = settle_plan(plan, self._journal.trail().observation)
        self._journal.append(event)
        refused = f", {len(event.refused)} refused" if event.refused else ""
        return replace(result, output=told.encode(), summary=f"{len(event.completed)} done{refused}")

    def usage(self, account: Account, usage: Usage) -> None:
        """Record the usage of a model call."""
        self._journal.append(UsageRecorded(account=account, usage=usage))

    def session(self, session: AgentSession) -> None:
        """Record what another process needs to continue with an external agent."""
        self._journal.append(SessionOpened(session=session))

    async def agent_ran(self, ran: AgentRun) -> None:
        """Store the output, then write the event. If the run is cancelled meanwhile, both ends of a large output are stored."""
        store = OutputStore(self._journal.artifacts)
        self._journal.append(
            AgentRan(
                agent=ran.agent,
                ending=self._redact(ran.ending),
                duration=ran.duration,
                output=await store.adopt(ran.output),
                errors=await store.adopt(ran.errors),
                note=self._redact(ran.note),
            )
        )
        store.settle()

    def audit_failed(self, kind: Literal["parse", "transport", "authentication"], detail: str) -> None:
        """Record a failed audit; the agent gets no message about it."""
        self._journal.append(AuditFailed(round=self._journal.state.round, kind=kind, detail=self._redact(detail)))

    @property
    def streams_text(self) -> bool:
        """Return whether an observer shows the agent's text while it streams."""
        return self._journal.streams_text

    def text(self, delta: str) -> None:
        """For progress alone."""
        self._journal.stream(delta)

    def check_budget(self) -> None:
        """Make the record durable before the next call. Raise BudgetExhausted if nothing is left to pay the call with."""
        self._journal.sync()
        spent = budget_spent(self._journal.state)
        if spent:
            raise BudgetExhausted(spent, "raise [budget] tokens or cost_usd (--tokens, --cost)")

    def scratch(self, suffix: str = "") -> Path:
        """Return a new path in the run's folder."""
        return self._scratch(suffix)
