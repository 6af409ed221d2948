"""OpenHands conversations, with the names and parameters of the OpenHands SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, Unpack

import goalrunner
from goalrunner import (
    Goal,
    GoalContinue,
    GoalDone,
    GoalOutcome,
    GoalStatus,
    GoalVerdict,
    Usage,
)
from goalrunner.adapters.framework import (
    FrameworkConversation,
    framework_module,
    usage_of,
)
from goalrunner.adapters.library import Library
from goalrunner.adapters.message_formats import call_block
from goalrunner.adapters.turn_recorder import TurnRecorder
from goalrunner.agents.chat_history import with_history
from goalrunner.app.previous_run import Reference
from goalrunner.app.run_options import JudgeChoice, RunKeywords
from goalrunner.core.agent_ports import Message, Recorder, RoundReply, Unfinished
from goalrunner.core.errors import AgentError, UsageError
from goalrunner.core.messages import TIMESTAMP
from goalrunner.core.user_messages import ORIGIN
from goalrunner.llm.outside import OutsideModel, goal_error_of

__all__ = [
    "GoalContinue",
    "GoalController",
    "GoalDone",
    "GoalOutcome",
    "GoalStatus",
    "GoalVerdict",
    "OpenHandsConversation",
    "ajudge_goal",
    "aresume",
    "arun_goal",
    "judge_goal",
    "resume",
    "run_goal",
]

# Seconds between two reads of the events of a running conversation.
_POLL = 0.2
# Seconds that an interrupted conversation has to end by itself.
_PATIENCE = 10.0


def _sdk(part: str = "") -> Any:
    """Return the SDK, or a part of it.

    Raise ImportError if it is not installed. It needs Python 3.12.
    """
    return framework_module(f"openhands.sdk{part}", "openhands")


def openhands_model(llm: Any) -> OutsideModel:
    """Return an OpenHands LLM as a model for the judge."""

    async def ask(messages: Sequence[Message]) -> tuple[str, Usage]:
        sdk = _sdk()
        before = _Spent.of(llm.metrics)
        chat = []
        for message in messages:
            content = sdk.TextContent(text=message["content"])
            chat.append(sdk.Message(role=message["role"], content=[content]))
        response = await llm.acompletion(messages=chat)
        usage = _Spent.of(llm.metrics).since(before)
        return _text(response.message.content), usage

    return OutsideModel(llm.model, ask)


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
    """

    name = "openhands"

    def __init__(self, conversation: Any) -> None:
        sdk = _sdk()
        self.conversation = conversation
        folder = conversation.state.workspace
        # Validators run on this machine.
        if not isinstance(folder, sdk.LocalWorkspace):
            raise UsageError(
                f"the conversation works in a {type(folder).__name__}, "
                "where no check can run",
                "use a conversation with a LocalWorkspace",
            )
        self.workspace = Path(folder.working_dir).resolve()
        # How many events are recorded, or are of an earlier turn.
        self._recorded = 0
        # A chat that the next prompt contains.
        self._history: Sequence[Message] = ()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat of the active branch, in OpenAI's format."""
        return chat_of(self.conversation.state.active_branch())

    @property
    def llm(self) -> OutsideModel:
        return openhands_model(self.conversation.agent.llm)

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Send a message, run the conversation, and record it while it works."""
        conversation, state = self.conversation, self.conversation.state
        text = with_history(self._history, prompt) if self._history else prompt
        self._history = ()
        first = len(state.events)
        self._recorded = first
        spent = _Spent.of(state.stats.get_combined_metrics())
        turn = TurnRecorder(self.name, recorder, text)
        recorder.check_budget()
        conversation.send_message(text)
        work = asyncio.ensure_future(conversation.arun())
        try:
            while not work.done():
                await asyncio.wait((work,), timeout=_POLL)
                spent = await self._record(turn, spent)
                recorder.check_budget()
            work.result()
        except Exception as error:
            raise goal_error_of(error) from error
        finally:
            if not work.done():
                # It may end in an orderly way; cancelling is the last resort.
                conversation.interrupt()
                await asyncio.wait((work,), timeout=_PATIENCE)
                work.cancel()
            await self._record(turn, spent)
        return _reply(state, list(state.events)[first:])

    def checkpoint(self) -> object:
        """Return the head of the conversation's events; empty if there is none yet."""
        return self.conversation.state.leaf_event_id or ""

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


def _reply(state: Any, events: Sequence[Any]) -> RoundReply:
    """Return the end of a turn.

    Raise AgentError if the conversation waits for a person, or was paused.
    """
    status = str(getattr(state.execution_status, "value", state.execution_status))
    if status == "paused":
        raise AgentError("the conversation is paused")
    if status == "waiting_for_confirmation":
        raise AgentError(
            "the conversation is waiting for confirmation",
            "confirm or reject its actions in your program, or use NeverConfirm()",
        )
    text = _sdk(".conversation.response_utils").get_agent_final_response(events)
    return RoundReply(text, "max_steps" if status == "error" else "answered")


def openhands_judge(judge: Any) -> JudgeChoice:
    """Convert an OpenHands LLM to a judge; return any other judge unchanged."""
    is_model = isinstance(judge, _sdk().LLM)
    return openhands_model(judge).separate("judge") if is_model else judge


_LIBRARY = Library(OpenHandsConversation, openhands_judge, max_iterations=10)
run_goal = _LIBRARY.run_goal
arun_goal = _LIBRARY.arun_goal
resume = _LIBRARY.resume
aresume = _LIBRARY.aresume


def judge_goal(
    judge_llm: Any, objective: str | Goal, events: Iterable[Any]
) -> GoalVerdict:
    """Ask a judge once whether the events of a conversation prove the objective."""
    return goalrunner.judge_goal(openhands_judge(judge_llm), objective, chat_of(events))


async def ajudge_goal(
    judge_llm: Any, objective: str | Goal, events: Iterable[Any]
) -> GoalVerdict:
    """Run `judge_goal` in the running event loop."""
    return await goalrunner.ajudge_goal(
        openhands_judge(judge_llm), objective, chat_of(events)
    )


class GoalController(goalrunner.GoalController):
    """The loop for programs that run the conversation themselves.

    It takes OpenHands events.
    """

    def __init__(
        self,
        objective: str | Goal,
        judge_llm: Any = None,
        **options: Unpack[RunKeywords],
    ) -> None:
        super().__init__(
            objective, openhands_judge(judge_llm), **_LIBRARY.adapted(options)
        )

    @classmethod
    def resume(
        cls, run: Reference, judge_llm: Any = None, **options: Unpack[RunKeywords]
    ) -> Self:
        """Return a controller that continues a run.

        It works as `goalrunner.GoalController.resume` does.
        """
        return super().resume(
            run, openhands_judge(judge_llm), **_LIBRARY.adapted_judge(options)
        )

    async def aon_run_finished(
        self, events: Sequence[Any], *, usage: Usage | None = None
    ) -> GoalContinue | GoalDone:
        """Check the last run of the conversation, whose events these are.

        `on_run_finished` does the same without await.
        """
        return await super().aon_run_finished(chat_of(events), usage=usage)
