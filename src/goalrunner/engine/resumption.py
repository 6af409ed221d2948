"""What an earlier process recorded of a run, read from its log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from goalrunner.core import events
from goalrunner.core.agent_ports import Recorded, Unfinished
from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.base import Snapshot
from goalrunner.core.events import Account, Record
from goalrunner.core.messages import text_of
from goalrunner.core.observation import Observation, TranscriptRef
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.ports import Artifacts, Message
from goalrunner.core.run_state import RunState

SHOWN_BYTES = 100_000
"""Bytes of each end of an output; no model is shown more."""

_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True)
class Resumption:
    """The conversation, the snapshots and the interrupted calls of an earlier process."""

    chat: tuple[Message, ...] = ()
    """The messages with which the conversation continues."""
    response: str = ""
    """Text of the last message of the current round."""
    snapshots: tuple[Snapshot, ...] = ()
    """All snapshots, oldest first."""
    ends: Mapping[int, str] = field(default_factory=dict)
    """By round: the id of the snapshot at its end."""
    round_start: Snapshot | None = None
    """The snapshot at the start of the current round."""
    unfinished: Unfinished = field(default_factory=Unfinished)
    taken: Mapping[Account, int] = field(default_factory=dict)
    """By account: how many model answers were used. An answer that was lost is requested again."""
    contents: tuple[events.Content, ...] = ()
    """The recorded results of checks by content, oldest first."""


class ResumptionReader:
    """Collects a Resumption from the records of a log. With `fresh_rounds`, each round starts a new chat."""

    def __init__(self, *, fresh_rounds: bool) -> None:
        self._fresh_rounds = fresh_rounds
        self._system: TranscriptRef | None = None
        self._chat: list[TranscriptRef] = []
        self._snapshots: list[Snapshot] = []
        self._results: dict[str, Observation] = {}
        self._called: events.ToolCalled | None = None
        self._taken: dict[Account, int] = {}
        self._judged = 0
        self._ends: dict[int, str] = {}
        self._round_start: Snapshot | None = None
        self._session: AgentSession | None = None
        self._contents: list[events.Content] = []
        self._begun = False
        self._objective: int | None = None

    def add(self, record: Record) -> None:
        """Process one record."""
        event = record.event
        match event:
            case events.SnapshotTaken():
                self._snapshots.append(event.snapshot)
            case events.RoundStarted():
                self._begun = True
                self._round_start = self._snapshots[-1] if self._snapshots else None
                if self._fresh_rounds:
                    self._chat.clear()
                    self._session = self._objective = None
            case events.RoundFinished(round=number, snapshot=Snapshot() as snapshot):
                self._ends[number] = snapshot.id
            case events.SessionOpened():
                self._session = event.session if event.session.id else None
            case events.MessageRecorded() | events.ToolCalled() | events.ToolResultRecorded():
                self._add_message(event)
            case events.RunResumed():  # an interrupted audit starts again
                self._judged = self._taken.get("judge", 0)
            case events.UsageRecorded(account="judge"):
                self._judged += event.usage.calls
            case events.BaselineTaken() | events.ValidatorsFinished() if event.content:
                self._contents.append(event.content)
            case events.VerdictRecorded() | events.ConfirmationRecorded():
                # An interrupted audit starts again, with its first question.
                self._taken["judge"] = self._judged
            case _:
                pass

    def _add_message(self, event: events.MessageRecorded | events.ToolCalled | events.ToolResultRecorded) -> None:
        match event:
            case events.MessageRecorded(role="system") if not self._chat:
                self._system = event.text
            case events.MessageRecorded():
                if event.role == "user" and self._begun and self._objective is None:
                    self._objective = len(self._chat)  # messages before it belong to another run
                self._chat.append(event.text)
                if event.role == "assistant":  # ids of calls are unique within one answer only
                    self._results, self._called = {}, None
                    # Answers in the chat of another run are not counted.
                    self._taken["agent"] = self._taken.get("agent", 0) + int(self._begun)
            case events.ToolCalled():
                self._called = event
            case events.ToolResultRecorded():
                self._results[event.tool_call_id] = event.observation
                self._called = None

    def chat(self, message: Callable[[TranscriptRef], Message]) -> tuple[Message, ...]:
        """Return the messages, the system prompt first. Raise RecordError if one is damaged."""
        refs = [self._system] if self._system else []
        return tuple(message(ref) for ref in (*refs, *self._chat))

    def read(self, message: Callable[[TranscriptRef], Message], artifacts: Artifacts) -> Resumption:
        """Return the Resumption with all texts. Raise RecordError if one is damaged."""
        chat = self.chat(message)
        results = {name: recorded(observation, artifacts) for name, observation in self._results.items()}
        cut = [self._called] if self._called is not None else []
        return Resumption(
            chat,
            _response(chat),
            tuple(self._snapshots),
            self._ends,
            self._round_start,
            Unfinished(
                results,
                tuple(call.tool_call_id for call in cut),
                self._session,
                self._objective,
                {call.tool_call_id: (call.tool, call.summary) for call in cut},
            ),
            dict(self._taken),
            tuple(self._contents),
        )


def recorded(observation: Observation, artifacts: Artifacts) -> Recorded:
    """Return an observation with both ends of its output."""
    ref = observation.output
    if ref is None:
        return Recorded(observation, b"")
    head, tail = artifacts.ends(ref, SHOWN_BYTES)
    return Recorded(observation, head, tail, omitted=ref.size - len(head) - len(tail))


def cut_calls(
    state: RunState, chat: Sequence[Message], totals: frozenset[BudgetName] = frozenset()
) -> dict[Account, Usage]:
    """Return by account what a call that was running when the process ended may have used.

    It is estimated from the call before. Of a first call only the sent tokens are known, and nothing of the first turn
    of an external agent. `totals` are budgets that the agent reports as totals of its session: the next turn contains
    the tokens of the interrupted one. (Measured: Codex and Qwen Code keep them even if they are killed; Claude Code
    loses the dollars, so dollars are always estimated.)
    """
    account = state.awaiting
    if account is None:
        return {}
    last = state.last_call.get(account)
    turn = account == "agent" and state.external
    if last is None and turn:
        used = Usage.unknown()
    elif last is None:
        tokens = sum(len(text_of(message.get("content"))) for message in chat) // _CHARACTERS_A_TOKEN
        used = Usage(input_tokens=tokens, cost_usd=None, estimated_tokens=tokens)
    else:
        used = last.model_copy(update={"estimated_tokens": last.tokens, "retries": 0})
    if turn and "tokens" in totals:
        nothing = {"input_tokens": 0, "output_tokens": 0, "estimated_tokens": 0, "uncounted_calls": 0}
        used = used.model_copy(update=nothing)
    # The call was not answered.
    return {account: used.model_copy(update={"calls": 0})}


def _response(chat: Sequence[Message]) -> str:
    last: Iterable[Message] = (message for message in reversed(chat) if message.get("role") == "assistant")
    return next((text_of(message.get("content")) for message in last), "")
