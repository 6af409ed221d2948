"""What an earlier process recorded of a run, for the process that continues it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from goalrunner.core import events
from goalrunner.core.agent_ports import Message, Unfinished
from goalrunner.core.agent_preset import BudgetName
from goalrunner.core.events import Account, Record
from goalrunner.core.messages import text_of
from goalrunner.core.observation import Observation, TranscriptRef
from goalrunner.core.outcome import AgentSession, Usage
from goalrunner.core.record_ports import Artifacts
from goalrunner.core.run_state import RunState
from goalrunner.engine.output_store import recorded


class Resumption:
    """What an earlier process recorded of a run.

    `add` collects it from each record of the log; `read` then reads the texts. With
    `fresh_rounds`, each round is a new chat.
    """

    def __init__(self, *, fresh_rounds: bool = False) -> None:
        # Set by `read`:
        self.chat: tuple[Message, ...] = ()
        """The messages with which the conversation continues."""
        self.response = ""
        """Text of the last message of the current round."""
        self.unfinished = Unfinished()
        # Collected by `add`:
        self.used_answers: dict[Account, int] = {}
        """By account: how many answers of its model led to a recorded result.

        The answers after them, of an audit that was interrupted, are requested again.
        """
        self.contents: list[events.Content] = []
        """The contents that validators ran on, with their results, oldest first."""
        # Collected by `add` for `read`:
        self._fresh_rounds = fresh_rounds
        self._system_prompt: TranscriptRef | None = None
        self._chat: list[TranscriptRef] = []
        self._results: dict[str, Observation] = {}
        """By call: the results since the agent's newest message."""
        self._open_call: events.ToolCalled | None = None
        """The newest call, until it has a result."""
        self._all_answers: Counter[Account] = Counter()
        """By account: its used answers, and those of an audit that is not over."""
        self._session: AgentSession | None = None
        """The session of an external agent that can be resumed."""
        self._has_begun = False
        """Whether round 1 has begun: earlier messages belong to another run."""
        self._first_prompt: int | None = None
        """The place of the run's first prompt in the chat."""

    def add(self, record: Record) -> None:  # noqa: C901  one arm per event
        """Process one record."""
        event = record.event
        match event:
            case events.RoundStarted():
                self._has_begun = True
                # The conversation is restored before each round.
                if self._fresh_rounds:
                    self._chat.clear()
                    self._session = self._first_prompt = None
            case events.SessionOpened():
                self._session = event.session if event.session.id else None
            case events.AgentSwitched():
                # The next agent has no session yet.
                self._session = None
                self._forget_calls()
            case events.MessageRecorded(role="system") if not self._chat:
                self._system_prompt = event.text
            case events.MessageRecorded():
                self._add_message(event)
            case events.ToolCalled():
                self._open_call = event
            case events.ToolResultRecorded():
                self._results[event.tool_call_id] = event.observation
                self._open_call = None
            case events.RunResumed():
                # The audit that was interrupted has started again, so the answers that
                # it had got do not count.
                self._all_answers = Counter(self.used_answers)
            case events.UsageRecorded() if event.account != "agent":
                self._all_answers[event.account] += event.usage.calls
            case events.BaselineTaken() | events.ValidatorsFinished() if event.content:
                self.contents.append(event.content)
            case (
                events.VerdictRecorded()
                | events.ConfirmationRecorded()
                | events.ChecksReviewed()
            ):
                self.used_answers["judge"] = self._all_answers["judge"]
            case events.CritiqueFinished():
                self.used_answers[event.account] = self._all_answers[event.account]
            case _:
                pass

    def _add_message(self, event: events.MessageRecorded) -> None:
        is_prompt = event.role == "user" and self._has_begun
        if is_prompt and self._first_prompt is None:
            self._first_prompt = len(self._chat)
        self._chat.append(event.text)
        if event.role == "assistant":
            # The ids of calls are unique within one answer only.
            self._forget_calls()
            # Answers in the chat of another run are not counted.
            count = self.used_answers.get("agent", 0)
            self.used_answers["agent"] = count + int(self._has_begun)

    def _forget_calls(self) -> None:
        self._open_call, self._results = None, {}

    def messages(
        self, read_message: Callable[[TranscriptRef], Message]
    ) -> tuple[Message, ...]:
        """Return the messages, the system prompt first.

        Raise RecordError if one is damaged.
        """
        refs = [self._system_prompt] if self._system_prompt else []
        return tuple(read_message(ref) for ref in (*refs, *self._chat))

    def read(
        self,
        read_message: Callable[[TranscriptRef], Message],
        artifacts: Artifacts,
    ) -> Resumption:
        """Read the texts that the added records name; return the resumption itself.

        Raise RecordError if one is damaged.
        """
        self.chat = self.messages(read_message)
        self.response = ""
        for message in reversed(self.chat):
            if message.get("role") == "assistant":
                self.response = text_of(message.get("content"))
                break
        cut_calls: dict[str, tuple[str, str]] = {}
        if self._open_call is not None:
            call = self._open_call
            cut_calls[call.tool_call_id] = (call.tool, call.summary)
        results = {
            call_id: recorded(observation, artifacts)
            for call_id, observation in self._results.items()
        }
        self.unfinished = Unfinished(
            results, cut_calls, self._session, self._first_prompt
        )
        return self


def usage_of_cut_call(
    state: RunState,
    chat: Sequence[Message],
    totals: frozenset[BudgetName] = frozenset(),
) -> dict[Account, Usage]:
    """Return by account the estimated usage of a call that was cut before its answer.

    Empty if no call was running. The whole turn of an external agent is one call. The
    estimate is the usage of the last answered call. For a first call, it is the sent
    tokens, by their characters; of an external agent, it is unknown. `totals` are
    budgets that the agent reports as totals of its session: the report of the next turn
    then includes the tokens of this one.
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
