"""Recording of what an agent or a judge does.

The artifact is written first, then the transcript, then the event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from goalrunner.core import events
from goalrunner.core.agent_ports import (
    CALLED,
    Message,
    QuestionReply,
    Recorded,
    ToolResult,
)
from goalrunner.core.approval_rules import rule_for
from goalrunner.core.budgets import shortfall
from goalrunner.core.errors import BudgetExhausted
from goalrunner.core.events import Account
from goalrunner.core.messages import text_of
from goalrunner.core.observation import (
    OWNER,
    ArtifactRef,
    Observation,
    names_in,
    source_of,
)
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.engine.approvals import ActionKind, ApprovalGate
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.output_store import OutputStore, recorded
from goalrunner.engine.parts import RefuseCall
from goalrunner.engine.person_decisions import answered_by, is_guarded
from goalrunner.engine.plans import settle_plan
from goalrunner.engine.snapshot_tracker import SnapshotTracker
from goalrunner.engine.validator_results import NAMED_BYTES


@dataclass(frozen=True)
class _Called:
    """A call without a result."""

    tool: str
    summary: str
    time_before: int | None
    """A time before its tool started; None: not known."""


class RunRecorder:
    """The port `Recorder` with a journal."""

    def __init__(
        self,
        journal: RunJournal,
        tracker: SnapshotTracker,
        approvals: ApprovalGate,
        scratch: Callable[[str], Path],
        refuse_call: RefuseCall,
    ) -> None:
        self._journal = journal
        self._refuse_call = refuse_call
        self._tracker = tracker
        self._approvals = approvals
        # The port lets the suffix be left out.
        self.scratch = lambda suffix="": scratch(suffix)
        self.text = journal.stream
        self.show = journal.show
        self.has_session = False
        """Whether an external agent has reported a session that can be resumed."""
        self._called: dict[str, _Called] = {}
        """The calls without a result, by id."""

    def message(self, message: Message) -> None:
        """Write the transcript line, then the event."""
        # The event contains offset, length and hash of the line.
        ref = self._journal.transcript.append(message)
        has_text = bool(text_of(message.get("content")).strip())
        self._journal.append(
            events.MessageRecorded(role=message["role"], text=ref, has_text=has_text)
        )

    def user_said(self, text: str) -> None:
        self._journal.append(events.UserSaid(text=text))

    async def permit(
        self, tool_call_id: str, kind: ActionKind, text: str, preview: str = ""
    ) -> str | None:
        state = self._journal.state
        rule = rule_for(kind, text, state.plan.approvals, state.goal.risk_class)
        if not rule:
            return None
        return await self._approvals.permit(rule, tool_call_id, kind, text, preview)

    def tool_called(self, tool_call_id: str, tool: str, summary: str) -> None:
        """Record the intent before the effect."""
        time_before = self._tracker.after_changes()
        self._called[tool_call_id] = _Called(tool, summary, time_before)
        self._journal.append(
            events.ToolCalled(tool_call_id=tool_call_id, tool=tool, summary=summary)
        )

    async def tool_result(self, result: ToolResult) -> Recorded:
        """Store the output, and write the event.

        If the agent asks a question, a person is asked first, whose answer becomes the
        output. If the tool may have changed the workspace, a snapshot is taken.
        """
        if result.plan is not None:
            result = self._planned(result, result.plan)
        started, ended = self._times(result)
        reply: QuestionReply | None = None
        if result.notice == "question":
            self._journal.append(events.QuestionOpened(question=result.command))
            reply = await self._approvals.answer(result.command)
        if reply is not None:
            result = replace(
                result,
                output=reply.text.encode(errors="replace"),
                facts=answered_by(reply),
                summary="answered",
            )
        before, after = await self._snapshot_ids(result)
        artifacts = self._journal.artifacts
        store = OutputStore(artifacts)
        output = await self._stored(result.output, store)
        observation = Observation(
            id=self._journal.next_observation(),
            source=source_of(result.tool) if reply is None else OWNER,
            facts=result.facts,
            names=names_in(*artifacts.ends(output, NAMED_BYTES)),
            command=result.command,
            round=self._journal.state.round,
            output=output,
            before=before,
            after=after,
            path=result.path,
            started=started,
            ended=ended,
            reported_by=result.reported_by,
        )
        self._journal.append(
            events.ToolResultRecorded(
                tool_call_id=result.tool_call_id,
                evidence_ref=observation.id,
                observation=observation,
                duration=result.duration,
                summary=result.summary,
            )
        )
        if result.notice == "blocked":
            self._journal.append(events.BlockReported(reason=result.command))
        if reply is not None:
            self._close_question(result.command, reply, observation)
        # Raised only now, because the event had to be written before.
        store.raise_cancellation()
        return recorded(observation, artifacts)

    def _times(self, result: ToolResult) -> tuple[int | None, int | None]:
        """Return when a tool was started and ended; None where it is not known."""
        called = self._called.pop(result.tool_call_id, None)
        started = result.started
        if started == CALLED:
            started = called.time_before if called is not None else None
        ended = self._tracker.note_changes() if result.ended is None else result.ended
        # Without a start, the end shows nothing.
        return started, None if started is None else ended

    async def _snapshot_ids(self, result: ToolResult) -> tuple[str | None, str | None]:
        """Return the ids of the snapshots before and after a tool."""
        if result.reported_by:
            # Nothing was recorded before and after the tool: the whole round counts.
            before, after = self._tracker.round_start, None
        else:
            before = self._tracker.last
            after = await self._tracker.take("tool") if result.writes else before
        return before.id if before else None, after.id if after else None

    async def _stored(self, output: bytes | Path, store: OutputStore) -> ArtifactRef:
        if isinstance(output, Path):
            return await store.take(output)
        return self._journal.artifacts.put(output)

    def _close_question(
        self, question: str, reply: QuestionReply, observation: Observation
    ) -> None:
        answered = events.QuestionAnswered(
            question=question,
            answer=reply.text,
            evidence_ref=observation.id,
            by=reply.by,
            guarded=is_guarded(reply, self._journal.state),
        )
        self._journal.append(answered)
        self._approvals.settle()

    async def interrupt_calls(self) -> None:
        """Record the calls without a result as interrupted: the turn was ended."""
        for call_id, call in tuple(self._called.items()):
            interrupted = ToolResult(
                call_id,
                call.tool,
                call.summary,
                ("interrupted",),
                b"",
                summary="interrupted",
            )
            await self.tool_result(interrupted)

    def _planned(self, result: ToolResult, plan: events.PlanProposed) -> ToolResult:
        """Record a plan; return the result for the agent.

        After a crash in between, the call counts as interrupted.
        """
        event, reply = settle_plan(plan, self._journal.trail().observation)
        self._journal.append(event)
        summary = f"{len(event.completed)} done"
        if event.refused:
            summary += f", {len(event.refused)} refused"
        return replace(result, output=reply.encode(), summary=summary)

    def usage(self, account: Account, usage: Usage) -> None:
        self._journal.append(events.UsageRecorded(account=account, usage=usage))

    def session(self, session: AgentSession) -> None:
        """Record what another process needs to continue with an external agent."""
        self._journal.append(events.SessionOpened(session=session))
        self.has_session = bool(session.id)

    async def agent_ran(self, ran: events.AgentRan, output: Path, errors: Path) -> None:
        """Store the output, then write the event.

        If the run is cancelled meanwhile, both ends of a large output are stored.
        """
        store = OutputStore(self._journal.artifacts)
        stored = {
            "output": await store.take_if_any(output),
            "errors": await store.take_if_any(errors),
        }
        self._journal.append(ran.model_copy(update=stored))
        store.raise_cancellation()

    def audit_failed(
        self,
        kind: Literal["parse", "transport", "authentication"],
        detail: str,
        answer: str = "",
    ) -> None:
        number = self._journal.state.round
        self._journal.append(
            events.AuditFailed(round=number, kind=kind, detail=detail, answer=answer)
        )

    @property
    def streams_text(self) -> bool:
        return self._journal.streams_text

    def check_budget(self, account: Account = "agent") -> None:
        """Make the record durable before the next call.

        Raise BudgetExhausted if a budget is spent or its use is unknown, and what
        `refuse_call` raises.
        """
        self._journal.log.sync()
        lacking = shortfall(self._journal.state)
        if lacking is not None:
            raise BudgetExhausted(
                lacking.words, "raise [budget] tokens or cost_usd (--tokens, --cost)"
            )
        self._refuse_call(account, self._journal.state)
