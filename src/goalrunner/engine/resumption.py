"""What an earlier process recorded of a run, for the process that continues it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from goalrunner.core import events
from goalrunner.core.agent_ports import Message, Unfinished
from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.events import Account, Record
from goalrunner.core.messages import text_of
from goalrunner.core.observation import Observation, TranscriptRef
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.run_state import RunState
from goalrunner.engine.output_store import recorded

if TYPE_CHECKING:
    from goalrunner.records.artifacts import ArtifactStore


class Resumption:
    """What an earlier process recorded of a run, collected from its log.

    With `fresh_rounds`, each round is a new chat.
    """

    def __init__(self, *, fresh_rounds: bool = False) -> None:
        self.chat: tuple[Message, ...] = ()
        """The messages with which the conversation continues.

        This and the next two are set by `read`.
        """
        self.response = ""
        """Text of the last message of the current round."""
        self.unfinished = Unfinished()
        self.used_answers: dict[Account, int] = {}
        """By account: how many model answers were used.

        An answer that was lost is requested again.
        """
        self.contents: list[events.Content] = []
        """The recorded results of checks by content, oldest first."""
        self._fresh_rounds = fresh_rounds
        self._system: TranscriptRef | None = None
        self._chat: list[TranscriptRef] = []
        self._results: dict[str, Observation] = {}
        self._called: events.ToolCalled | None = None
        self._answered: Counter[Account] = Counter()
        self._session: AgentSession | None = None
        self._has_begun = False
        self._objective: int | None = None
        """The place of the first prompt in the chat."""

    def add(self, record: Record) -> None:  # noqa: C901  one arm per event
        """Process one record."""
        event = record.event
        match event:
            case events.RoundStarted():
                self._has_begun = True
                # The conversation is restored before each round.
                if self._fresh_rounds:
                    self._chat.clear()
                    self._session = self._objective = None
            case events.SessionOpened():
                self._session = event.session if event.session.id else None
            case events.AgentSwitched():
                # The next agent has no session yet.
                self._session = None
                self._forget_calls()
            case events.MessageRecorded(role="system") if not self._chat:
                self._system = event.text
            case events.MessageRecorded():
                self._add_message(event)
            case events.ToolCalled():
                self._called = event
            case events.ToolResultRecorded():
                self._results[event.tool_call_id] = event.observation
                self._called = None
            case events.RunResumed():
                # An interrupted audit starts again.
                self._answered = Counter(self.used_answers)
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
                self.used_answers["judge"] = self._answered["judge"]
            case events.CritiqueFinished():
                self.used_answers[event.account] = self._answered[event.account]
            case _:
                pass

    def _add_message(self, event: events.MessageRecorded) -> None:
        is_prompt = event.role == "user" and self._has_begun
        if is_prompt and self._objective is None:
            # The messages before it belong to another run.
            self._objective = len(self._chat)
        self._chat.append(event.text)
        if event.role == "assistant":
            # The ids of calls are unique within one answer only.
            self._forget_calls()
            # Answers in the chat of another run are not counted.
            count = self.used_answers.get("agent", 0)
            self.used_answers["agent"] = count + int(self._has_begun)

    def _forget_calls(self) -> None:
        self._called, self._results = None, {}

    def messages(
        self, message: Callable[[TranscriptRef], Message]
    ) -> tuple[Message, ...]:
        """Return the messages, the system prompt first.

        Raise RecordError if one is damaged.
        """
        refs = [self._system] if self._system else []
        return tuple(message(ref) for ref in (*refs, *self._chat))

    def read(
        self, message: Callable[[TranscriptRef], Message], artifacts: ArtifactStore
    ) -> Resumption:
        """Read all texts of what was added, and return the resumption.

        Raise RecordError if one is damaged.
        """
        self.chat = self.messages(message)
        self.response = ""
        for chat_message in reversed(self.chat):
            if chat_message.get("role") == "assistant":
                self.response = text_of(chat_message.get("content"))
                break
        interrupted: dict[str, tuple[str, str]] = {}
        if self._called is not None:
            call = self._called
            interrupted[call.tool_call_id] = (call.tool, call.summary)
        results = {
            name: recorded(observation, artifacts)
            for name, observation in self._results.items()
        }
        self.unfinished = Unfinished(
            results, interrupted, self._session, self._objective
        )
        return self


def cut_calls(
    state: RunState,
    chat: Sequence[Message],
    totals: frozenset[BudgetName] = frozenset(),
) -> dict[Account, Usage]:
    """Return by account the estimated usage of a call that the process did not survive.

    It is estimated from the previous call. For a first call, only the sent tokens are
    estimated, from their characters; for the first turn of an external agent, the usage
    is unknown. `totals` are budgets that the agent reports as totals of its session:
    the next turn contains the tokens of the interrupted one.
    """
    account = state.awaiting
    if account is None:
        return {}
    last = state.last_call.get(account)
    is_turn = account == "agent" and state.external
    if last is not None:
        used = last.model_copy(update={"estimated_tokens": last.tokens, "retries": 0})
    elif is_turn:
        used = Usage.unknown()
    else:
        # English text has about four characters a token.
        tokens = sum(len(text_of(message.get("content"))) for message in chat) // 4
        used = Usage(input_tokens=tokens, cost_usd=None, estimated_tokens=tokens)
    # Measured: Codex and Qwen Code keep the totals even if they are killed.
    if is_turn and "tokens" in totals:
        no_tokens = {
            "input_tokens": 0,
            "output_tokens": 0,
            "estimated_tokens": 0,
            "uncounted_calls": 0,
        }
        used = used.model_copy(update=no_tokens)
    # The call was not answered, so it is no call that was used.
    return {account: used.model_copy(update={"calls": 0})}
