"""A Strands agent as a conversation, Strands models as judges, and `run_goal` over them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, cast

from goalrunner.adapters.common import (
    FrameworkConversation,
    Library,
    TurnRecorder,
    block_messages,
    framework_module,
    openai_messages,
    usage_of,
)
from goalrunner.app.run_options import JudgeChoice
from goalrunner.core.agent_ports import Message, Recorder, RoundReply, Unfinished
from goalrunner.core.errors import AgentError
from goalrunner.core.messages import text_of
from goalrunner.core.outcome import Usage
from goalrunner.llm.outside import OutsideModel, goal_error_of


def strands_model(model: Any) -> OutsideModel:
    """Return a Strands model as a model for the judge."""
    config = model.get_config()
    name = (
        config.get("model_id")
        if isinstance(config, dict)
        else getattr(config, "model_id", None)
    )

    async def ask(messages: Sequence[Message]) -> tuple[str, Usage]:
        rules = "\n\n".join(
            text_of(message["content"])
            for message in messages
            if message["role"] == "system"
        )
        pieces: list[str] = []
        used: dict[str, int] = {}
        async for event in model.stream(block_messages(messages), None, rules or None):
            pieces.append(
                event.get("contentBlockDelta", {}).get("delta", {}).get("text") or ""
            )
            used = event.get("metadata", {}).get("usage") or used
        return "".join(pieces), usage_of(
            used.get("inputTokens", 0), used.get("outputTokens", 0), 1
        )

    return OutsideModel(f"strands/{name or type(model).__name__}", ask)


class StrandsConversation(FrameworkConversation):
    """A Strands agent as a conversation. Turns are added to `agent.messages`, and the agent runs its tools itself."""

    name = "strands"

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self._turn: TurnRecorder | None = None
        self._counted = (0, 0)
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
        return strands_model(self.agent.model)

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Invoke the agent, and record its messages, tool results and usage while it works."""
        result: Any = None
        with self.recording(recorder):
            try:
                async with contextlib.aclosing(
                    self.agent.stream_async(prompt)
                ) as events:
                    async for event in events:
                        result = event.get("result", result)
                        if recorder.streams_text and isinstance(event.get("data"), str):
                            recorder.text(event["data"])
            except Exception as error:
                raise goal_error_of(error) from error
        return reply_of(result)

    @contextlib.contextmanager
    def recording(
        self, recorder: Recorder, *, keeps_budget: bool = True
    ) -> Iterator[None]:
        """Record what the agent does in the context; BudgetExhausted ends its turn unless `keeps_budget` is False."""
        self._turn, self._calls, self._counted = (
            TurnRecorder(self.name, recorder),
            0,
            self._tokens(),
        )
        self._keeps_budget = keeps_budget
        try:
            yield
        finally:
            self.count()
            self._turn = None

    def checkpoint(self) -> object:
        """Return a snapshot of messages, system prompt and model state, without `agent.state`."""
        return self.agent.take_snapshot(
            preset="session",
            include=["system_prompt", "model_state"],
            exclude=["state", "interrupt_state"],
        )

    def restore(self, checkpoint: object) -> None:
        self.agent.load_snapshot(checkpoint)

    def load(
        self, messages: Sequence[Message], left: Unfinished, recorder: Recorder
    ) -> None:
        """Give the agent the chat that an earlier process recorded. The agent keeps its own system prompt."""
        self.agent.messages = block_messages(messages)

    def count(self) -> None:
        """Record the usage since the last call of this method."""
        now, calls = self._tokens(), self._calls
        if self._turn is not None and calls:
            used = (now[0] - self._counted[0], now[1] - self._counted[1])
            self._counted, self._calls = now, 0
            self._turn.recorder.usage("agent", usage_of(*used, calls))

    def _tokens(self) -> tuple[int, int]:
        used = self.agent.event_loop_metrics.accumulated_usage
        return used["inputTokens"], used["outputTokens"]

    def _on_model(self, event: Any) -> None:
        if self._turn is not None:
            self.count()
            if self._keeps_budget:
                self._turn.recorder.check_budget()
            self._calls += 1

    def _on_tool(self, event: Any) -> None:
        if self._turn is not None:
            self._turn.begin(event.tool_use["toolUseId"])

    async def _on_message(self, event: Any) -> None:
        if self._turn is not None:
            results = [
                block["toolResult"]
                for block in event.message["content"]
                if "toolResult" in block
            ]
            failed = {
                result["toolUseId"]
                for result in results
                if result.get("status") == "error"
            }
            for message in openai_messages(event.message):
                facts = ("error",) if message.get("tool_call_id") in failed else ()
                await self._turn.add(message, facts)


def reply_of(result: Any) -> RoundReply:
    """Return the end of a turn. Raise AgentError if the agent was cancelled, or stopped for an interrupt."""
    if result is None or result.stop_reason == "cancelled":
        raise AgentError("the agent was cancelled")
    if result.stop_reason == "interrupt":
        raise AgentError(
            "the agent stopped for an interrupt, which only your program can answer"
        )
    reason = "max_steps" if result.stop_reason.startswith("limit_") else "answered"
    return RoundReply(text_of(result.message["content"]), cast(Any, reason))


def strands_judge(judge: Any) -> JudgeChoice:
    """Convert a Strands model to a judge; return any other judge unchanged."""
    is_model = isinstance(judge, framework_module("strands.models", "strands").Model)
    return strands_model(judge).separate("judge") if is_model else judge


LIBRARY = Library(StrandsConversation, strands_judge)
