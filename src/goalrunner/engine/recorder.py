"""Recording of what an agent or a judge does, and reading it back from the log of an earlier process.

The artifact is written first, then the transcript, then the event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from goalrunner.core import events
from goalrunner.core.agent_ports import (
    CALLED,
    Message,
    Recorded,
    ToolResult,
    Unfinished,
)
from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.approval_rules import rule_for
from goalrunner.core.budgets import shortfall
from goalrunner.core.errors import BudgetExhausted
from goalrunner.core.events import Account, Record
from goalrunner.core.messages import text_of
from goalrunner.core.observation import (
    OWNER,
    Observation,
    TranscriptRef,
    names_in,
    source_of,
)
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.run_state import RunState
from goalrunner.engine.approvals import ActionKind, ApprovalGate, answered_by
from goalrunner.engine.journal import OutputStore, RunJournal
from goalrunner.engine.prompts import settle_plan
from goalrunner.engine.snapshot_tracker import SnapshotTracker

if TYPE_CHECKING:
    from goalrunner.records.artifacts import ArtifactStore


@dataclass(frozen=True)
class _Called:
    """A call without a result. `after` is a time before its tool started, if one is known."""

    tool: str
    summary: str
    after: int | None


class RunRecorder:
    """The port `Recorder` with a journal."""

    def __init__(
        self,
        journal: RunJournal,
        tracker: SnapshotTracker,
        approvals: ApprovalGate,
        scratch: Callable[[str], Path],
    ) -> None:
        self._journal = journal
        self._tracker = tracker
        self._approvals = approvals
        self.scratch = lambda suffix="": scratch(suffix)
        self.text = journal.stream
        self.show = journal.show
        self.has_session = False  # whether an external agent has reported a session that can be resumed
        self._called: dict[str, _Called] = {}  # the calls without a result, by id

    def message(self, message: Message) -> None:
        """Write the transcript line, then the event."""
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
        return (
            await self._approvals.permit(rule, tool_call_id, kind, text, preview)
            if rule
            else None
        )

    def tool_called(self, tool_call_id: str, tool: str, summary: str) -> None:
        """Record the intent before the effect."""
        self._called[tool_call_id] = _Called(
            tool, summary, self._tracker.after_changes()
        )
        self._journal.append(
            events.ToolCalled(tool_call_id=tool_call_id, tool=tool, summary=summary)
        )

    async def tool_result(self, result: ToolResult) -> Recorded:
        """Store the output, take a snapshot if the workspace may have changed, and write the event. A question is asked first."""
        if result.plan is not None:
            result = self._planned(result, result.plan)
        source, reply, question = source_of(result.tool), None, result.command
        called = self._called.pop(result.tool_call_id, None)
        started = result.started
        if result.started == CALLED:
            started = called.after if called is not None else None
        ended = self._tracker.note_changes() if result.ended is None else result.ended
        if result.notice == "question":
            self._journal.append(events.QuestionOpened(question=question))
            reply = await self._approvals.answer(question)
        if reply is not None:
            answer, facts = reply.text.encode(errors="replace"), answered_by(reply)
            source, result = (
                OWNER,
                replace(result, output=answer, facts=facts, summary="answered"),
            )
        if (
            result.reported_by
        ):  # no snapshots were taken before and after it: the whole round counts
            before, after = self._tracker.round_start, None
        else:
            before = self._tracker.last
            after = await self._tracker.take("tool") if result.writes else before
        artifacts = self._journal.artifacts
        store, output = OutputStore(artifacts), result.output
        if isinstance(output, Path):
            ref = await store.take(output)
        else:
            ref = artifacts.put(output)
        observation = Observation(
            id=self._journal.next_observation(),
            source=source,
            facts=result.facts,
            names=names_in(*artifacts.ends(ref, 1 << 16)),
            command=result.command,
            round=self._journal.state.round,
            output=ref,
            before=before.id if before else None,
            after=after.id if after else None,
            path=result.path,
            started=started,
            ended=None if started is None else ended,
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
            answered = events.QuestionAnswered(
                question=question,
                answer=reply.text,
                evidence_ref=observation.id,
                by=reply.by,
            )
            self._journal.append(answered)
            self._approvals.settle()
        store.settle()
        return recorded(observation, artifacts)

    async def interrupt_calls(self) -> None:
        """Record the calls that have no result as interrupted, because the agent's turn was ended."""
        for name, call in tuple(self._called.items()):
            cut = ToolResult(
                name,
                call.tool,
                call.summary,
                ("interrupted",),
                b"",
                summary="interrupted",
            )
            await self.tool_result(cut)

    def _planned(self, result: ToolResult, plan: events.PlanProposed) -> ToolResult:
        """Record a plan; return the result for the agent. After a crash in between, the call counts as interrupted."""
        event, reply = settle_plan(plan, self._journal.trail().observation)
        self._journal.append(event)
        refused = f", {len(event.refused)} refused" if event.refused else ""
        return replace(
            result,
            output=reply.encode(),
            summary=f"{len(event.completed)} done{refused}",
        )

    def usage(self, account: Account, usage: Usage) -> None:
        self._journal.append(events.UsageRecorded(account=account, usage=usage))

    def session(self, session: AgentSession) -> None:
        """Record what another process needs to continue with an external agent."""
        self._journal.append(events.SessionOpened(session=session))
        self.has_session = bool(session.id)

    async def agent_ran(self, ran: events.AgentRan, output: Path, errors: Path) -> None:
        """Store the output, then write the event. If the run is cancelled meanwhile, both ends of a large output are stored."""
        store = OutputStore(self._journal.artifacts)
        stored = {
            "output": await store.adopt(output),
            "errors": await store.adopt(errors),
        }
        self._journal.append(ran.model_copy(update=stored))
        store.settle()

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

    def check_budget(self) -> None:
        """Make the record durable before the next call. Raise BudgetExhausted if a budget is spent or unknown."""
        self._journal.log.sync()
        if found := shortfall(self._journal.state):
            raise BudgetExhausted(
                found.words, "raise [budget] tokens or cost_usd (--tokens, --cost)"
            )


class Resumption:
    """What an earlier process recorded of a run, collected from its log. With `fresh_rounds`, each round is a new chat."""

    def __init__(self, *, fresh_rounds: bool = False) -> None:
        self.chat: tuple[Message, ...] = ()
        """The messages with which the conversation continues; set by `read`, as the next two."""
        self.response = ""  # text of the last message of the current round
        self.unfinished = Unfinished()
        self.taken: dict[Account, int] = {}
        """By account: how many model answers were used. An answer that was lost is requested again."""
        self.contents: list[
            events.Content
        ] = []  # the recorded results of checks by content, oldest first
        self._fresh_rounds = fresh_rounds
        self._system: TranscriptRef | None = None
        self._chat: list[TranscriptRef] = []
        self._results: dict[str, Observation] = {}
        self._called: events.ToolCalled | None = None
        self._answered: Counter[Account] = Counter()
        self._session: AgentSession | None = None
        self._begun = False
        self._objective: int | None = None

    def add(self, record: Record) -> None:  # noqa: C901  one arm per event
        """Process one record."""
        event = record.event
        match event:
            case events.RoundStarted():
                self._begun = True
                if self._fresh_rounds:
                    self._chat.clear()
                    self._session = self._objective = None
            case events.SessionOpened():
                self._session = event.session if event.session.id else None
            case events.AgentSwitched():  # the next agent has no session yet
                self._session, self._called, self._results = None, None, {}
            case events.MessageRecorded(role="system") if not self._chat:
                self._system = event.text
            case events.MessageRecorded():
                if event.role == "user" and self._begun and self._objective is None:
                    self._objective = len(
                        self._chat
                    )  # messages before it belong to another run
                self._chat.append(event.text)
                if (
                    event.role == "assistant"
                ):  # ids of calls are unique within one answer only
                    self._results, self._called = {}, None
                    # Answers in the chat of another run are not counted.
                    self.taken["agent"] = self.taken.get("agent", 0) + int(self._begun)
            case events.ToolCalled():
                self._called = event
            case events.ToolResultRecorded():
                self._results[event.tool_call_id] = event.observation
                self._called = None
            case events.RunResumed():  # an interrupted audit starts again
                self._answered = Counter(self.taken)
            case events.UsageRecorded() if event.account != "agent":
                self._answered[event.account] += event.usage.calls
            case events.BaselineTaken() | events.ValidatorsFinished() if event.content:
                self.contents.append(event.content)
            case (
                events.VerdictRecorded()
                | events.ConfirmationRecorded()
                | events.ChecksReviewed()
            ):
                # An interrupted audit starts again, with its first question.
                self.taken["judge"] = self._answered["judge"]
            case events.CritiqueFinished():
                self.taken[event.account] = self._answered[event.account]
            case _:
                pass

    def messages(
        self, message: Callable[[TranscriptRef], Message]
    ) -> tuple[Message, ...]:
        """Return the messages, the system prompt first. Raise RecordError if one is damaged."""
        refs = [self._system] if self._system else []
        return tuple(message(ref) for ref in (*refs, *self._chat))

    def read(
        self, message: Callable[[TranscriptRef], Message], artifacts: ArtifactStore
    ) -> Resumption:
        """Read all texts of what was added, and return the resumption. Raise RecordError if one is damaged."""
        self.chat = self.messages(message)
        last = (
            message
            for message in reversed(self.chat)
            if message.get("role") == "assistant"
        )
        self.response = next((text_of(message.get("content")) for message in last), "")
        cut = {
            call.tool_call_id: (call.tool, call.summary)
            for call in (self._called,)
            if call is not None
        }
        results = {
            name: recorded(observation, artifacts)
            for name, observation in self._results.items()
        }
        self.unfinished = Unfinished(results, cut, self._session, self._objective)
        return self


def cut_calls(
    state: RunState,
    chat: Sequence[Message],
    totals: frozenset[BudgetName] = frozenset(),
) -> dict[Account, Usage]:
    """Return by account the estimated usage of a call that was running when the process ended.

    It is estimated from the previous call. For a first call, only the sent tokens are estimated, from their characters;
    for the first turn of an external agent, the usage is unknown. `totals` are budgets that the agent reports as totals
    of its session: the next turn contains the tokens of the interrupted one. (Measured: Codex and Qwen Code keep them
    even if they are killed.)
    """
    account = state.awaiting
    if account is None:
        return {}
    last = state.last_call.get(account)
    turn = account == "agent" and state.external
    if last is None and turn:
        used = Usage.unknown()
    elif last is None:
        tokens = sum(len(text_of(message.get("content"))) for message in chat) // 4
        used = Usage(input_tokens=tokens, cost_usd=None, estimated_tokens=tokens)
    else:
        used = last.model_copy(update={"estimated_tokens": last.tokens, "retries": 0})
    if turn and "tokens" in totals:
        nothing = {
            "input_tokens": 0,
            "output_tokens": 0,
            "estimated_tokens": 0,
            "uncounted_calls": 0,
        }
        used = used.model_copy(update=nothing)
    # The call was not answered.
    return {account: used.model_copy(update={"calls": 0})}


SHOWN_BYTES = 100_000  # of each end of an output; no model is shown more


def recorded(observation: Observation, artifacts: ArtifactStore) -> Recorded:
    """Return an observation with both ends of its output."""
    ref = observation.output
    head, tail = artifacts.ends(ref, SHOWN_BYTES) if ref else (b"", b"")
    return Recorded(
        observation, head, tail, omitted=ref.size - len(head) - len(tail) if ref else 0
    )
