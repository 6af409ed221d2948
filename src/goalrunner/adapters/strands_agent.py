"""Strands agents as conversations, and Strands models as judges."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from goalrunner.adapters.framework import (
    FrameworkConversation,
    framework_module,
    usage_of,
)
from goalrunner.adapters.library import Library
from goalrunner.adapters.message_formats import block_messages, openai_messages
from goalrunner.adapters.turn_recorder import TurnRecorder
from goalrunner.app.run_options import JudgeChoice
from goalrunner.core.agent_ports import Message, Recorder, RoundReply, Unfinished
from goalrunner.core.errors import AgentError, GoalError, Outage
from goalrunner.core.messages import text_of
from goalrunner.core.outcome import Usage
from goalrunner.llm.outside import OutsideModel, goal_error_of


def strands_model(model: Any) -> OutsideModel:
    """Return a Strands model as a model for the judge."""
    config = model.get_config()
    if isinstance(config, dict):
        name = config.get("model_id")
    else:
        name = getattr(config, "model_id", None)

    async def ask(messages: Sequence[Message]) -> tuple[str, Usage]:
        # Strands takes system messages apart from the chat.
        rules = []
        for message in messages:
            if message["role"] == "system":
                rules.append(text_of(message["content"]))
        *earlier, last = block_messages(messages)
        # An agent without tools, because it repeats calls that a provider throttles.
        agent = framework_module("strands", "strands").Agent(
            model=model,
            messages=earlier,
            system_prompt="\n\n".join(rules) or None,
            callback_handler=None,
        )
        errors = framework_module("strands.types.exceptions", "strands")
        try:
            await agent.invoke_async(last["content"])
        except errors.MaxTokensReachedException:
            # An answer that was cut may be readable; the judge is asked again if not.
            if agent.messages[-1]["role"] != "assistant":
                raise
        used = agent.event_loop_metrics.accumulated_usage
        usage = usage_of(used["inputTokens"], used["outputTokens"], 1)
        return text_of(agent.messages[-1]["content"]), usage

    model_name = f"strands/{name or type(model).__name__}"
    return OutsideModel(model_name, ask, error_of=_as_goal_error)


def _as_goal_error(error: Exception, model: str = "") -> GoalError:
    """Return an error of Strands; one that passes by itself says so.

    `model` is the model that failed; empty if an agent failed.
    """
    goal_error = goal_error_of(error, model)
    errors = framework_module("strands.types.exceptions", "strands")
    if goal_error.outage is None and isinstance(error, errors.ModelThrottledException):
        # Strands has repeated the call already, so only a longer wait can help.
        goal_error.outage = Outage("limit", "throttled", was_retried=True)
    return goal_error


@dataclass(frozen=True)
class _Tokens:
    """Tokens that the agent has used so far."""

    input: int = 0
    output: int = 0


class StrandsConversation(FrameworkConversation):
    """A Strands agent as a conversation.

    Turns are added to `agent.messages`, and the agent runs its tools itself.

    >>> from goalrunner import run_goal
    >>> from goalrunner.adapters.strands import StrandsConversation
    >>> agent = StrandsConversation(strands_agent)  # doctest: +SKIP
    >>> run_goal(agent, "Explain rainbows.", validators=short)  # doctest: +SKIP
    """

    name = "strands"

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self._turn: TurnRecorder | None = None
        # The tokens that are recorded.
        self._counted = _Tokens()
        # Model calls since then.
        self._calls = 0
        self._keeps_budget = True
        hooks = framework_module("strands.hooks", "strands")
        agent.add_hook(self._on_message, hooks.MessageAddedEvent)
        agent.add_hook(self._on_tool, hooks.BeforeToolCallEvent)
        agent.add_hook(self._on_model, hooks.BeforeModelCallEvent)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The agent's own messages, in blocks."""
        return cast(list[dict[str, Any]], self.agent.messages)

    @property
    def llm(self) -> OutsideModel:
        """The agent's model."""
        return strands_model(self.agent.model)

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Invoke the agent, and record its turn while it works."""
        result: Any = None
        with self.recording(recorder):
            try:
                stream = self.agent.stream_async(prompt)
                # Closed at once if the turn is cancelled, so that the agent stops too.
                async with contextlib.aclosing(stream) as events:
                    async for event in events:
                        result = event.get("result", result)
                        piece = event.get("data")
                        if recorder.streams_text and isinstance(piece, str):
                            recorder.text(piece)
            except Exception as error:
                raise _as_goal_error(error) from error
        return reply_of(result)

    @contextlib.contextmanager
    def recording(
        self, recorder: Recorder, *, keeps_budget: bool = True
    ) -> Iterator[None]:
        """Record what the agent does in the context.

        BudgetExhausted ends its turn unless `keeps_budget` is False.
        """
        self._turn = TurnRecorder(self.name, recorder)
        self._calls = 0
        self._counted = self._tokens()
        self._keeps_budget = keeps_budget
        try:
            yield
        finally:
            self.count()
            self._turn = None

    def checkpoint(self) -> object:
        """Return a snapshot of messages, system prompt and model state.

        `agent.state` belongs to the program, so it is left out.
        """
        return self.agent.take_snapshot(
            preset="session",
            include=["system_prompt", "model_state"],
            exclude=["state", "interrupt_state"],
        )

    def restore(self, checkpoint: object) -> None:
        """Return to a checkpoint: messages, system prompt and state."""
        self.agent.load_snapshot(checkpoint)

    def load(
        self, messages: Sequence[Message], unfinished: Unfinished, recorder: Recorder
    ) -> None:
        """Continue the chat that was recorded.

        An agent whose own messages begin with that chat keeps them: they hold what is
        not recorded, such as images, and the answer to an interrupt.
        """
        recorded = list(map(_words_of, messages))
        agents_chat: list[_Words] = []
        for message in self.agent.messages:
            agents_chat += map(_words_of, openai_messages(message))
        # The system prompt stays that of the agent.
        recorded = [words for words in recorded if words[0] != "system"]
        if not recorded or agents_chat[: len(recorded)] != recorded:
            self.agent.messages = block_messages(messages)

    def count(self) -> None:
        """Record the usage since the last call of this method."""
        if self._turn is None or not self._calls:
            return
        now = self._tokens()
        used = usage_of(
            now.input - self._counted.input,
            now.output - self._counted.output,
            self._calls,
        )
        self._counted = now
        self._calls = 0
        self._turn.recorder.usage("agent", used)

    def _tokens(self) -> _Tokens:
        used = self.agent.event_loop_metrics.accumulated_usage
        return _Tokens(used["inputTokens"], used["outputTokens"])

    def _on_model(self, event: Any) -> None:
        if self._turn is not None:
            # The budget needs the usage of the calls before this one.
            self.count()
            if self._keeps_budget:
                # Before each call, so that a budget ends the turn in its middle.
                self._turn.recorder.check_budget()
            self._calls += 1

    def _on_tool(self, event: Any) -> None:
        if self._turn is not None:
            self._turn.begin(event.tool_use["toolUseId"])

    async def _on_message(self, event: Any) -> None:
        if self._turn is None:
            return
        failed_calls = set()
        for block in event.message["content"]:
            result = block.get("toolResult", {})
            if result.get("status") == "error":
                failed_calls.add(result["toolUseId"])
        for message in openai_messages(event.message):
            is_failed = message.get("tool_call_id") in failed_calls
            await self._turn.add(message, ("error",) if is_failed else ())


_Words = tuple[str, str, tuple[str, ...]]
"""Role, text and ids of the calls of a message."""


def _words_of(message: Message) -> _Words:
    calls = tuple(str(call["id"]) for call in message.get("tool_calls") or ())
    return str(message["role"]), text_of(message["content"]), calls


def reply_of(result: Any) -> RoundReply:
    """Return the end of a turn.

    Raise AgentError if the agent was cancelled, or stopped for an interrupt.
    """
    if result is None or result.stop_reason == "cancelled":
        raise AgentError("the agent was cancelled")
    if result.stop_reason == "interrupt":
        raise AgentError(
            "the agent stopped for an interrupt, which only your program can answer",
            "call the agent with the answer, then resume(outcome, agent)",
        )
    reason = "max_steps" if result.stop_reason.startswith("limit_") else "answered"
    text = text_of(result.message["content"])
    has_call = any("toolUse" in block for block in result.message["content"])
    # The call with the structured output ends the turn, and is all of the answer.
    if result.structured_output is not None and has_call:
        structured = result.structured_output.model_dump_json()
        text = f"{text}\n{structured}".strip()
    return RoundReply(text, cast(Any, reason))


def strands_judge(judge: Any) -> JudgeChoice:
    """Convert a Strands model to a judge; return any other judge unchanged."""
    is_model = isinstance(judge, framework_module("strands.models", "strands").Model)
    return strands_model(judge).separate("judge") if is_model else judge


LIBRARY = Library(StrandsConversation, strands_judge)
