"""Agents of the OpenHands SDK as conversations, and its models as judges."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goalrunner import Usage
from goalrunner.adapters.framework import (
    FrameworkConversation,
    framework_module,
    usage_of,
)
from goalrunner.adapters.message_formats import call_block
from goalrunner.adapters.openhands_workspace import local_folder, workspace_of
from goalrunner.adapters.turn_recorder import TurnRecorder
from goalrunner.agents.chat_history import with_history
from goalrunner.app.run_options import JudgeChoice
from goalrunner.core.agent_ports import Message, Recorder, RoundReply, Unfinished
from goalrunner.core.errors import UsageError
from goalrunner.core.messages import TIMESTAMP
from goalrunner.core.user_messages import ORIGIN
from goalrunner.llm.outside import OutsideModel, goal_error_of
from goalrunner.system.event_loop import in_thread

# Seconds between two reads of the events of a running conversation.
_POLL = 0.2
# Seconds that an interrupted conversation has to end by itself.
_PATIENCE = 10.0

_ENDINGS = {
    "paused": "the conversation was paused",
    "stuck": "the conversation was stuck: it repeated itself",
    "waiting_for_confirmation": "the conversation waited for a confirmation",
}
"""Why a turn ended early, by the status of the conversation."""


def _sdk(part: str = "") -> Any:
    """Return the SDK, or a part of it.

    Raise ImportError if it is not installed. It needs Python 3.12.
    """
    return framework_module(f"openhands.sdk{part}", "openhands")


def openhands_model(llm: Any, errors: list[Exception]) -> OutsideModel:
    """Return an OpenHands LLM as a model for the judge.

    What the LLM raises is added to `errors`.
    """

    async def ask(messages: Sequence[Message]) -> tuple[str, Usage]:
        before = _Spent.of(llm.metrics)
        # A model of an agent may stream, which needs a function for its pieces.
        quiet = llm.model_copy(update={"stream": False}) if llm.stream else llm
        try:
            response = await quiet.acompletion(messages=_sdk_messages(messages))
        except Exception as error:
            errors.append(error)
            raise
        usage = _Spent.of(llm.metrics).since(before)
        return _text(response.message.content), usage

    return OutsideModel(llm.model, ask)


def _sdk_messages(messages: Sequence[Message]) -> list[Any]:
    sdk = _sdk()
    converted: list[Any] = []
    for message in messages:
        content = sdk.TextContent(text=message["content"])
        converted.append(sdk.Message(role=message["role"], content=[content]))
    return converted


def _text(content: Any) -> str:
    return "\n".join(_sdk(".llm").content_to_str(content))


@dataclass(frozen=True)
class _Spent:
    """What a model has used so far."""

    input_tokens: int
    output_tokens: int
    calls: int
    cost: float
    """US dollars."""

    @classmethod
    def of(cls, metrics: Any) -> _Spent:
        calls, cost = len(metrics.token_usages), metrics.accumulated_cost
        tokens = metrics.accumulated_token_usage
        if tokens is None:
            return cls(0, 0, calls, cost)
        return cls(tokens.prompt_tokens, tokens.completion_tokens, calls, cost)

    def since(self, before: _Spent) -> Usage:
        return usage_of(
            int(self.input_tokens - before.input_tokens),
            int(self.output_tokens - before.output_tokens),
            self.calls - before.calls,
            self.cost - before.cost,
        )


def chat_of(events: Iterable[Any]) -> list[dict[str, Any]]:
    """Convert OpenHands events to a chat in OpenAI's format, without the system prompt.

    A message with tool calls has the time of its events, which are made before the
    tools start.
    """
    sdk_events = _sdk(".event")
    # Other events, such as those of the conversation's state, are no part of the chat.
    convertible = sdk_events.LLMConvertibleEvent
    chat_events = [event for event in events if isinstance(event, convertible)]
    user_texts: set[str] = set()
    made_at: dict[str, Any] = {}
    for event in chat_events:
        if isinstance(event, sdk_events.ActionEvent):
            made_at[event.tool_call_id] = event.timestamp
        elif isinstance(event, sdk_events.MessageEvent) and event.source == "user":
            user_texts.add(_text(event.to_llm_message().content))
    chat = []
    for message in convertible.events_to_messages(chat_events):
        # The chat may continue with another agent, which has its own prompt.
        if message.role == "system":
            continue
        entry = _entry(message, made_at)
        # The framework sends messages of its own in the name of the user.
        if message.role == "user" and entry["content"] not in user_texts:
            entry[ORIGIN] = "program"
        chat.append(entry)
    return chat


def _entry(message: Any, made_at: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in OpenAI's format; `made_at` has the times of calls by id."""
    entry: dict[str, Any] = {"role": message.role, "content": _text(message.content)}
    if message.tool_calls:
        calls = []
        times = []
        for call in message.tool_calls:
            calls.append(call_block(call.id, call.name, call.arguments))
            if call.id in made_at:
                times.append(made_at[call.id])
        entry["tool_calls"] = calls
        if times:
            # The earliest: a file that changed after it makes the result outdated.
            entry[TIMESTAMP] = min(times)
    if message.tool_call_id:
        entry["tool_call_id"] = message.tool_call_id
    return entry


class OpenHandsConversation(FrameworkConversation):
    """An OpenHands conversation as a conversation of a run.

    Its events, critic and hooks stay as they are.

    >>> from goalrunner import run_goal
    >>> from goalrunner.adapters.openhands import OpenHandsConversation
    >>> agent = OpenHandsConversation(conversation)  # doctest: +SKIP
    >>> run_goal(agent, "Make the tests pass.", validators="pytest")  # doctest: +SKIP
    """

    name = "openhands"

    def __init__(self, conversation: Any) -> None:
        self.conversation = conversation
        self.workspace = local_folder(workspace_of(conversation))
        """None if it is on another machine."""
        self.errors: list[Exception] = []
        """What the conversation raised, oldest first."""
        # How many events are recorded.
        self._recorded = 0
        # The run whose records have the events before its first turn.
        self._run: Recorder | None = None
        # A chat that the next prompt contains.
        self._history: Sequence[Message] = ()

    @property
    def sees_files(self) -> bool:
        """Whether the workspace is on this machine."""
        return self.workspace is not None

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat of the active branch, in OpenAI's format."""
        state = self.conversation.state
        # A remote conversation has only one branch.
        has_branches = hasattr(state, "active_branch")
        return chat_of(state.active_branch() if has_branches else state.events)

    @property
    def llm(self) -> OutsideModel:
        """The model of the conversation's agent."""
        return openhands_model(self.conversation.agent.llm, self.errors)

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Send a message, run the conversation, and record it while it works."""
        conversation, state = self.conversation, self.conversation.state
        text = with_history(self._history, prompt) if self._history else prompt
        self._history = ()
        await self._record_earlier(recorder)
        first = self._recorded
        spent = _Spent.of(state.stats.get_combined_metrics())
        turn = TurnRecorder(self.name, recorder, text)
        recorder.check_budget()
        conversation.send_message(text)
        work = asyncio.ensure_future(_run(conversation))
        try:
            while not work.done():
                await asyncio.wait((work,), timeout=_POLL)
                spent = await self._record(turn, spent)
                recorder.check_budget()
            work.result()
        except Exception as error:
            self.errors.append(error)
            raise goal_error_of(error) from error
        finally:
            if not work.done():
                # It may end in an orderly way; cancelling is the last resort.
                conversation.interrupt()
                await asyncio.wait((work,), timeout=_PATIENCE)
                work.cancel()
            await self._record(turn, spent)
        return _reply(state, list(state.events)[first:])

    async def _record_earlier(self, recorder: Recorder) -> None:
        """Record the events before the first turn of a run, which the judge may cite.

        A later turn, and a run that is resumed, has them already.
        """
        if self._run is not recorder:
            # The run itself records what a person wrote before it.
            turn = TurnRecorder(self.name, recorder)
            for message in self.messages:
                await turn.add(message)
        self._run = recorder
        self._recorded = len(self.conversation.state.events)

    def checkpoint(self) -> object:
        """Return the head of the conversation's events; empty if there is none yet.

        Raise UsageError for a remote conversation, whose head is not known.
        """
        state = self.conversation.state
        if not hasattr(state, "leaf_event_id"):
            raise UsageError(
                "a remote conversation cannot return to an earlier chat",
                "omit preserve_context=False",
            )
        return state.leaf_event_id or ""

    def restore(self, checkpoint: object) -> None:
        """Move the head back; the events after it stay in the log.

        It moves to the system prompt if there was no event.
        """
        self.conversation.navigate_to(checkpoint or self._system_prompt_id())

    def _system_prompt_id(self) -> Any:
        system_prompt = _sdk(".event").SystemPromptEvent
        for event in self.conversation.state.events:
            if isinstance(event, system_prompt):
                return event.id
        return None

    def load(
        self, messages: Sequence[Message], unfinished: Unfinished, recorder: Recorder
    ) -> None:
        """Continue with the conversation's own events if there are any.

        Otherwise the next prompt contains the chat.
        """
        self._history = () if self.messages else messages
        self._run = recorder

    async def _record(self, turn: TurnRecorder, before: _Spent) -> _Spent:
        """Record new events and their usage; return what was spent so far."""
        events = list(self.conversation.state.events)
        new_events = events[self._recorded :]
        self._recorded = len(events)
        for message in chat_of(new_events):
            await turn.add(message)
        now = _Spent.of(self.conversation.state.stats.get_combined_metrics())
        # A report of tokens without a finished call is not complete yet.
        if now.calls > before.calls:
            turn.recorder.usage("agent", now.since(before))
        return now


async def _run(conversation: Any) -> None:
    """Run a conversation without blocking the event loop."""
    base = _sdk(".conversation.base").BaseConversation
    # That of the base class, as of a remote conversation, blocks it.
    if type(conversation).arun is base.arun:
        await in_thread(conversation.run)
    else:
        await conversation.arun()


def _reply(state: Any, events: Sequence[Any]) -> RoundReply:
    """Return the end of a turn.

    A conversation that was paused, or waits for a confirmation, is checked as it is; as
    in OpenHands' loop, it goes on with the next message.
    """
    text = _sdk(".conversation.response_utils").get_agent_final_response(events)
    status = str(getattr(state.execution_status, "value", state.execution_status))
    if status == "error":
        return RoundReply(text, "max_steps")
    ending = _ENDINGS.get(status)
    if ending is None:
        return RoundReply(text)
    return RoundReply(text, "interrupted", ending=ending)


def openhands_judge(judge: Any, errors: list[Exception]) -> JudgeChoice:
    """Convert an OpenHands LLM to a judge; return any other judge unchanged.

    What the LLM raises is added to `errors`.
    """
    is_model = isinstance(judge, _sdk().LLM)
    return openhands_model(judge, errors).separate("judge") if is_model else judge
