"""OpenHands conversations: `run_goal`, `judge_goal` and `GoalController` with the parameters of the OpenHands SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
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
from goalrunner.adapters.common import (
    FrameworkConversation,
    Library,
    TurnRecorder,
    call_block,
    framework_module,
    usage_of,
)
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

_POLL = 0.2
"""Seconds between two reads of the events of a running conversation."""
_PATIENCE = 10.0
"""Seconds that an interrupted conversation has to end by itself."""


def _sdk(part: str = "") -> Any:
    """Return the SDK, or a part of it. Raise ImportError if it is not installed; it needs Python 3.12."""
    return framework_module(f"openhands.sdk{part}", "openhands")


def openhands_model(llm: Any) -> OutsideModel:
    """Return an OpenHands LLM as a model for the judge."""

    async def ask(messages: Sequence[Message]) -> tuple[str, Usage]:
        sdk, before = _sdk(), _spent(llm.metrics)
        asked = [
            sdk.Message(
                role=message["role"], content=[sdk.TextContent(text=message["content"])]
            )
            for message in messages
        ]
        response = await llm.acompletion(messages=asked)
        return _text(response.message.content), _since(before, _spent(llm.metrics))

    return OutsideModel(llm.model, ask)


def _text(content: Any) -> str:
    return "\n".join(_sdk(".llm").content_to_str(content))


def _spent(metrics: Any) -> tuple[int, int, int, float]:
    """Return input tokens, output tokens, calls and dollars so far."""
    used = metrics.accumulated_token_usage
    tokens = (
        (used.prompt_tokens, used.completion_tokens) if used is not None else (0, 0)
    )
    return (*tokens, len(metrics.token_usages), metrics.accumulated_cost)


def _since(
    before: tuple[int, int, int, float], now: tuple[int, int, int, float]
) -> Usage:
    read, written, calls, cost = (
        new - old for new, old in zip(now, before, strict=True)
    )
    return usage_of(int(read), int(written), int(calls), cost)


def chat_of(events: Iterable[Any]) -> list[dict[str, Any]]:
    """Convert OpenHands events to a chat in OpenAI's format, without the system prompt.

    A message with tool calls has the time of its events, which are made before the tools start.
    """
    convertible, message_event = (
        _sdk(".event").LLMConvertibleEvent,
        _sdk(".event").MessageEvent,
    )
    shown = [event for event in events if isinstance(event, convertible)]
    typed = (
        event
        for event in shown
        if isinstance(event, message_event) and event.source == "user"
    )
    by_user = {_text(event.to_llm_message().content) for event in typed}
    actions = (
        event for event in shown if isinstance(event, _sdk(".event").ActionEvent)
    )
    made = {event.tool_call_id: event.timestamp for event in actions}
    chat = []
    for message in convertible.events_to_messages(shown):
        if message.role == "system":
            continue
        entry: dict[str, Any] = {
            "role": message.role,
            "content": _text(message.content),
        }
        if message.role == "user" and entry["content"] not in by_user:
            entry[ORIGIN] = "program"
        if message.tool_calls:
            entry["tool_calls"] = [
                call_block(call.id, call.name, call.arguments)
                for call in message.tool_calls
            ]
            if times := [
                made[call.id] for call in message.tool_calls if call.id in made
            ]:
                entry[TIMESTAMP] = min(times)
        if message.tool_call_id:
            entry["tool_call_id"] = message.tool_call_id
        chat.append(entry)
    return chat


class OpenHandsConversation(FrameworkConversation):
    """An OpenHands conversation as a conversation of a run. Its events, critic and hooks stay its own."""

    name = "openhands"

    def __init__(self, conversation: Any) -> None:
        sdk = _sdk()
        self.conversation = conversation
        folder = conversation.state.workspace
        if not isinstance(folder, sdk.LocalWorkspace):
            raise UsageError(
                f"the conversation works in a {type(folder).__name__}, where no check can run",
                "use a conversation with a LocalWorkspace",
            )
        self.workspace = Path(folder.working_dir).resolve()
        self._seen = 0
        self._history: Sequence[Message] = ()

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat of the active branch, in OpenAI's format."""
        return chat_of(self.conversation.state.active_branch())

    @property
    def llm(self) -> OutsideModel:
        return openhands_model(self.conversation.agent.llm)

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Send a message, run the conversation, and record its events and usage while it works."""
        conversation, state = self.conversation, self.conversation.state
        text = with_history(self._history, prompt) if self._history else prompt
        self._history = ()
        first = self._seen = len(state.events)
        spent = _spent(state.stats.get_combined_metrics())
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
                conversation.interrupt()
                await asyncio.wait((work,), timeout=_PATIENCE)
                work.cancel()
            await self._record(turn, spent)
        return _reply(state, list(state.events)[first:])

    def checkpoint(self) -> object:
        """Return the head of the conversation's events; empty if there is none yet."""
        return self.conversation.state.leaf_event_id or ""

    def restore(self, checkpoint: object) -> None:
        """Move the head back, to the system prompt if there was no event; the events after it stay in the log."""
        if not checkpoint:
            events, first = (
                self.conversation.state.events,
                _sdk(".event").SystemPromptEvent,
            )
            checkpoint = next(
                (event.id for event in events if isinstance(event, first)), None
            )
        self.conversation.navigate_to(checkpoint)

    def load(
        self, messages: Sequence[Message], left: Unfinished, recorder: Recorder
    ) -> None:
        """Continue with the conversation's own events if there are any; otherwise the next prompt contains the chat."""
        self._history = () if self.messages else messages

    async def _record(
        self, turn: TurnRecorder, before: tuple[int, int, int, float]
    ) -> tuple[int, int, int, float]:
        """Record new events and their usage; return what was spent so far."""
        events = list(self.conversation.state.events)
        new, self._seen = events[self._seen :], len(events)
        for message in chat_of(new):
            await turn.add(message)
        now = _spent(self.conversation.state.stats.get_combined_metrics())
        if now[2] > before[2]:
            turn.recorder.usage("agent", _since(before, now))
        return now


def _reply(state: Any, events: Sequence[Any]) -> RoundReply:
    """Return the end of a turn. Raise AgentError if the conversation waits for a person, or was paused."""
    status = str(getattr(state.execution_status, "value", state.execution_status))
    if status in ("waiting_for_confirmation", "paused"):
        hint = "confirm or reject its actions in your program, or use NeverConfirm()"
        raise AgentError(
            f"the conversation is {status.replace('_', ' ')}",
            hint if status != "paused" else "",
        )
    text = _sdk(".conversation.response_utils").get_agent_final_response(events)
    return RoundReply(text, "max_steps" if status == "error" else "answered")


def openhands_judge(judge: Any) -> JudgeChoice:
    """Convert an OpenHands LLM to a judge; return any other judge unchanged."""
    return (
        openhands_model(judge).separate("judge")
        if isinstance(judge, _sdk().LLM)
        else judge
    )


_LIBRARY = Library(OpenHandsConversation, openhands_judge, max_iterations=10)
run_goal, arun_goal, resume, aresume = (
    _LIBRARY.run_goal,
    _LIBRARY.arun_goal,
    _LIBRARY.resume,
    _LIBRARY.aresume,
)


def judge_goal(
    judge_llm: Any, objective: str | Goal, events: Iterable[Any]
) -> GoalVerdict:
    """Ask a judge once whether the objective is provably complete, from the events of a conversation."""
    return goalrunner.judge_goal(openhands_judge(judge_llm), objective, chat_of(events))


async def ajudge_goal(
    judge_llm: Any, objective: str | Goal, events: Iterable[Any]
) -> GoalVerdict:
    """Run `judge_goal` in the running event loop."""
    return await goalrunner.ajudge_goal(
        openhands_judge(judge_llm), objective, chat_of(events)
    )


class GoalController(goalrunner.GoalController):
    """The loop for programs that run the conversation themselves; it takes OpenHands events."""

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
        """Return a controller that continues a run, as `goalrunner.GoalController.resume` does."""
        return super().resume(
            run, openhands_judge(judge_llm), **_LIBRARY.adapted_judge(options)
        )

    async def aon_run_finished(
        self, events: Sequence[Any], *, usage: Usage | None = None
    ) -> GoalContinue | GoalDone:
        """Check the last run of the conversation, whose events these are. `on_run_finished` does the same without await."""
        return await super().aon_run_finished(chat_of(events), usage=usage)
