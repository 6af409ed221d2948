"""The parsers of the built-in agents. Their presets are the files in `presets`, in the format of a user's own preset."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from goalrunner.agents.parser import (
    AgentParser,
    CallStarted,
    SessionStarted,
    StreamEvent,
    TextDelta,
    UsageReported,
    at,
    block_text,
    call,
    failure,
    items,
    message,
    number,
    result,
    session,
    tokens,
)
from goalrunner.agents.parser import first as first_of
from goalrunner.core.agent_preset import Preset


def preset_of(name: str) -> Preset:
    """Return the preset of a built-in agent."""
    file = Path(__file__).with_name("presets") / f"{name}.toml"
    return Preset.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))


class Claude(AgentParser):
    """Claude Code."""

    preset = preset_of("claude")

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("type"), line.get("subtype"):
            case "system", "init":
                yield from session(line, "session_id")
            case "system", "api_retry" if (line.get("error_status"), line.get("attempt")) == (401, 3):
                # Claude Code may try a wrong key ten times in three minutes. It renews an expired login after the first
                # refusal, so the third refusal ends the round.
                yield failure(line, "error", ends=True)
            case "assistant", _:
                for block in items(at(line, "message", "content")):
                    if at(block, "type") == "text":
                        yield from message(block, "text")
                    elif at(block, "type") == "tool_use":
                        yield call(block, "id", "name", "input.command", "input.file_path", "input")
            case "user", _:
                for block in items(at(line, "message", "content")):
                    if at(block, "type") == "tool_result":
                        yield result(block, "tool_use_id", "content", failed="is_error")
            case "result", _:
                yield from self.usage(line)
                if line.get("is_error") is True:
                    yield failure(line, "error.message", "result", "errors", "error", "subtype")

    def usage(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        """Yield the tokens and dollars of a result."""
        cached = "usage.cache_read_input_tokens", "usage.cache_creation_input_tokens"
        yield from tokens(line, "usage.input_tokens", "usage.output_tokens", *cached, dollars=False)
        if (cost := first_of(line, "total_cost_usd")) is not None:
            yield UsageReported(cost=number(cost), cumulative=True, tokens=False)


class Qwen(Claude):
    """Qwen Code, whose output has the same form."""

    preset = preset_of("qwen")

    def usage(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        yield from tokens(line, "usage.input_tokens", "usage.output_tokens", cumulative=True)


class Gemini(AgentParser):
    """Gemini CLI."""

    preset = preset_of("gemini")

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("type"):
            case "init":
                yield from session(line, "session_id")
            case "message" if line.get("role") == "assistant" and line.get("delta") is True:
                if piece := block_text(line.get("content")):
                    yield TextDelta(piece)
            case "tool_use":
                yield call(line, "tool_id", "tool_name", "parameters.command", "parameters.file_path", "parameters")
            case "tool_result":
                yield result(line, "tool_id", "output", "error.message", failed="status")
            case "result":
                yield from tokens(line, "stats.input_tokens", "stats.output_tokens")
                if line.get("status") == "error":
                    yield failure(line, "error.message", "error")
            case "error" if line.get("severity") == "error":
                yield failure(line, "message")


class Codex(AgentParser):
    """Codex."""

    preset = preset_of("codex")

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("type"), at(line, "item", "type"):
            case "thread.started", _:
                yield from session(line, "thread_id")
            case "item.completed", "agent_message":
                yield from message(line, "item.text")
            case ("item.started" | "item.completed") as kind, (
                "command_execution" | "mcp_tool_call" | "file_change" | "web_search"
            ):
                found = result(
                    line,
                    "item.id",
                    *("item.aggregated_output", "item.result", "item.error"),
                    tool=("item.tool", "item.type"),
                    command=("item.command", "item.arguments", "item.changes", "item.query"),
                    code="item.exit_code",
                    failed="item.status",
                )
                yield CallStarted(found.id, found.tool, found.command) if kind == "item.started" else found
            case "turn.completed", _:
                yield from tokens(line, "usage.input_tokens", "usage.output_tokens", cumulative=True)
            case (("error" | "turn.failed"), _):  # also "Reconnecting..."; later work clears the failure
                yield failure(line, "error.message", "message")


class OpenCode(AgentParser):
    """opencode."""

    preset = preset_of("opencode")

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        yield from session(line, "sessionID")
        match line.get("type"):
            case "text":
                yield from message(line, "part.text")
            case "tool_use":  # printed when the call has ended
                yield result(
                    line,
                    "part.callID",
                    *("part.state.output", "part.state.error"),
                    tool=("part.tool",),
                    command=("part.state.input.command", "part.state.input.filePath", "part.state.input"),
                    code="part.state.metadata.exit",
                    failed="part.state.status",
                )
            case "step_finish":
                cached = "part.tokens.cache.read", "part.tokens.cache.write"
                yield from tokens(line, "part.tokens.input", "part.tokens.output", *cached, cost="part.cost")
            case "error":
                yield failure(line, "error.data.message", "error.message", "error.name", "error")


_SESSION = "Conversation ID:"
"""The text before the session id, which is printed after the last line of JSON."""


class OpenHands(AgentParser):
    """OpenHands."""

    preset = preset_of("openhands")

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("kind"):
            case "MessageEvent" if line.get("source") == "agent":
                yield from message(line, "llm_message.content")
            case "ActionEvent":
                for block in items(line.get("thought")):
                    if at(block, "type") == "text":
                        yield from message(block, "text")
                yield call(line, "tool_call_id", "tool_name", "action.command", "action.path", "action")
            case "ObservationEvent":
                yield result(
                    line,
                    "tool_call_id",
                    "observation.content",
                    tool=("tool_name",),
                    code="observation.exit_code",
                    failed="observation.is_error",
                )
            case "AgentErrorEvent":
                yield result(line, "tool_call_id", "error", tool=("tool_name",))
            case "ConversationErrorEvent":
                yield failure(line, "detail", "code")

    def other(self, line: str) -> StreamEvent:
        name = line.removeprefix(_SESSION).split() if line.startswith(_SESSION) else []
        return SessionStarted(name[0]) if name else super().other(line)
