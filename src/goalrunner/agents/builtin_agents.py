"""The parsers of the built-in agents.

Their presets are the files in `presets`, in the format of a user's own preset.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from goalrunner.agents.codex_sessions import session_start, turn_details
from goalrunner.agents.error_kinds import meaning_of
from goalrunner.agents.json_lines import number
from goalrunner.agents.line_events import (
    call,
    failure,
    message,
    result,
    session,
    tokens,
)
from goalrunner.agents.parser import (
    AgentParser,
    CallFinished,
    CallStarted,
    Failed,
    Prompted,
    SessionStarted,
    StreamEvent,
    Text,
    TextDelta,
    TurnEnded,
    UsageReported,
)
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import Outage
from goalrunner.core.messages import (
    at,
    block_text,
    integer_of,
    items,
    text,
    text_of,
)
from goalrunner.core.outages import RATE_LIMIT, reset_time, time_of_epoch, usage_limit


def preset_of(name: str) -> Preset:
    """Return the preset of a built-in agent."""
    file = Path(__file__).with_name("presets") / f"{name}.toml"
    return Preset.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))


_MOST_CALLS = 1_000
"""Calls of one tool that are read from a mere number, which could be damaged."""

# The limits of a subscription, and how they are shown.
_WINDOWS = {"five_hour": "five hours", "seven_day": "seven days"}

# From this version on, `modelUsage` and `total_cost_usd` are totals of the session;
# before, of the process. Later versions report the usage since the last result as well.
_SESSION_TOTALS = (2, 1, 277)

# Claude Code may try a wrong key ten times in three minutes. It renews an expired login
# after the first refusal, so the third refusal ends the round.
_LAST_REFUSAL = (401, 3)


@dataclass(frozen=True)
class _ModelTotals:
    """The usage of all models of an agent."""

    input: int = 0
    """Tokens, including what was cached."""
    output: int = 0
    cost: float = 0.0
    """US dollars."""

    def report(self, *, cumulative: bool = False) -> UsageReported:
        return UsageReported(self.input, self.output, self.cost, cumulative)

    def since(self, earlier: _ModelTotals) -> _ModelTotals:
        """Return the difference to earlier totals.

        Totals that have decreased belong to another process, and all of them is new.
        """
        if self.input < earlier.input or self.output < earlier.output:
            return self
        if self.cost < earlier.cost:
            return self
        return _ModelTotals(
            self.input - earlier.input,
            self.output - earlier.output,
            self.cost - earlier.cost,
        )


class Claude(AgentParser):
    """Claude Code."""

    preset = preset_of("claude")
    reports_end = True

    def __init__(self) -> None:
        self._limit: Outage | None = None
        self._error = ""
        self._has_messages = False
        self._counts_sessions = False
        self._counted = _ModelTotals()

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("type"), line.get("subtype"):
            case "system", "init":
                version = _version(line.get("claude_code_version"))
                self._counts_sessions = version >= _SESSION_TOTALS
                yield from session(line, "session_id", "model", "claude_code_version")
            case "system", "api_retry":
                refusal = (line.get("error_status"), line.get("attempt"))
                if refusal == _LAST_REFUSAL:
                    yield failure(line, "error", ends=True, obstacle="sign_in")
            case "rate_limit_event", _:
                self._limit = _used_up(line.get("rate_limit_info")) or self._limit
            case "assistant", _ if line.get("is_api_error_message") is True:
                # The result repeats the message, but not the name of the error.
                self._error = text(line.get("error"))
            case "assistant", _:
                # An earlier error, such as one of a subagent, did not end the turn.
                self._error = ""
                self._has_messages = True
                yield from self._contents(line)
            case "user", _:
                yield from self._results(line)
            case "result", _:
                yield from self.usage(line)
                if line.get("is_error") is True:
                    yield self._failed(line)
                    return
                # With `--output-format json`, it is the only line.
                if not self._has_messages:
                    yield from message(line, "result")
                yield TurnEnded()

    def _contents(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        """Yield the texts and calls of a message."""
        by_subagent = _is_of_subagent(line)
        for block in items(at(line, "message", "content")):
            if at(block, "type") == "text":
                words = block_text(at(block, "text"))
                if words:
                    yield Text(words, by_subagent)
            elif at(block, "type") == "tool_use":
                started = call(
                    block, "id", "name", "input.command", "input.file_path", "input"
                )
                yield replace(started, by_subagent=by_subagent)

    def _results(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        """Yield the results in a message of the user, and what the user wrote."""
        by_subagent = _is_of_subagent(line)
        content = at(line, "message", "content")
        for block in items(content):
            if at(block, "type") == "tool_result":
                ended = result(block, "tool_use_id", "content", failed="is_error")
                yield replace(ended, by_subagent=by_subagent)
        words = text_of(content)
        if words and not by_subagent:
            yield Prompted(words)

    @classmethod
    def prints(cls, line: dict[str, Any]) -> bool:
        # Sessions that the program saves have `sessionId` and `parentUuid`.
        if not isinstance(line.get("session_id"), str) or "parentUuid" in line:
            return False
        is_of_claude = line.keys() & {"uuid", "parent_tool_use_id", "num_turns"}
        return bool(is_of_claude) or line.get("type") in ("system", "result")

    def _failed(self, line: dict[str, Any]) -> Failed:
        """Return the failure of a result."""
        meaning = meaning_of(line.get("api_error_status"), self._error)
        outage = meaning.outage
        if line.get("api_error") == "usage_limit_reached" and meaning.obstacle is None:
            outage = usage_limit("", None)
        if outage is not None and outage.kind == "limit":
            # The event about the limit names the time of its reset.
            outage = self._limit or outage
        kind = text(line.get("subtype"))
        return failure(
            line,
            *("error.message", "result", "errors", "error", "subtype"),
            outage=outage,
            obstacle=meaning.obstacle,
            ending="" if kind == "success" else kind,
        )

    def usage(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        """Yield the tokens and dollars of a result."""
        recent = line.get("model_usage_since_last_result")
        totals = line.get("modelUsage")
        if isinstance(recent, dict):
            yield _sum_of(recent).report()
        elif isinstance(totals, dict) and self._counts_sessions:
            yield _sum_of(totals).report(cumulative=True)
        elif isinstance(totals, dict):
            earlier, self._counted = self._counted, _sum_of(totals)
            yield self._counted.since(earlier).report()
        else:
            # Of a turn that ended with an error, `usage` lacks the last request, so it
            # is the last resort.
            yield from tokens(
                line,
                "usage.input_tokens",
                "usage.output_tokens",
                "usage.cache_read_input_tokens",
                "usage.cache_creation_input_tokens",
                cost="total_cost_usd",
            )


def _used_up(limit: Any) -> Outage | None:
    """Return the outage of a subscription's limit if it rejects requests."""
    if at(limit, "status") != "rejected":
        return None
    window = text(at(limit, "rateLimitType"))
    name = _WINDOWS.get(window, window.replace("_", " "))
    return usage_limit(name, time_of_epoch(at(limit, "resetsAt")))


def _version(value: Any) -> tuple[int, ...]:
    """Return the numbers of a version; empty if it is none."""
    match = re.match(r"\d{1,6}(\.\d{1,6})*", text(value), re.ASCII)
    return tuple(map(int, match[0].split("."))) if match else ()


def _sum_of(models: dict[str, Any]) -> _ModelTotals:
    """Return the usage of all models."""
    input_tokens = output_tokens = 0
    cost = 0.0
    for row in models.values():
        for name in ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"):
            input_tokens += int(number(at(row, name)) or 0)
        output_tokens += int(number(at(row, "outputTokens")) or 0)
        cost += number(at(row, "costUSD")) or 0.0
    return _ModelTotals(input_tokens, output_tokens, cost)


def _is_of_subagent(line: dict[str, Any]) -> bool:
    """Return whether a message is of the conversation of a sub-agent."""
    return line.get("parent_tool_use_id") is not None


class Qwen(Claude):
    """Qwen Code, whose output has the same form."""

    preset = preset_of("qwen")

    def usage(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        yield from tokens(
            line, "usage.input_tokens", "usage.output_tokens", cumulative=True
        )


class Gemini(AgentParser):
    """Gemini CLI."""

    preset = preset_of("gemini")
    reports_end = True

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("type"):
            case "init":
                yield from session(line, "session_id")
            case "message":
                yield from self._message(line)
            case "tool_use":
                yield call(
                    line,
                    "tool_id",
                    "tool_name",
                    "parameters.command",
                    "parameters.file_path",
                    "parameters",
                )
            case "tool_result":
                yield result(
                    line, "tool_id", "output", "error.message", failed="status"
                )
            case "result":
                yield from tokens(line, "stats.input_tokens", "stats.output_tokens")
                if line.get("status") == "error":
                    yield failure(line, "error.message", "error")
                else:
                    yield TurnEnded()
            case "error" if line.get("severity") == "error":
                # Warnings have the same type.
                yield failure(line, "message")
            case None if self._is_document(line):
                yield from self._document(line)

    @staticmethod
    def _is_document(line: dict[str, Any]) -> bool:
        """Return whether it is what `gemini -o json` prints for a whole turn."""
        has_response = isinstance(line.get("response"), str)
        return has_response and isinstance(line.get("stats"), dict)

    def _document(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        """Yield the answer of a turn. Of its calls only the numbers are printed."""
        yield from session(line, "session_id")
        tools = at(line, "stats", "tools", "byName")
        names = tools if isinstance(tools, dict) else ()
        for name in names:
            calls = integer_of(at(tools, name, "count")) or 0
            for call_number in range(min(calls, _MOST_CALLS)):
                yield CallStarted(f"{name}-{call_number}", name)
        yield Text(line["response"])
        yield TurnEnded()

    def _message(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        words = block_text(line.get("content"))
        if not words:
            return
        if line.get("role") == "user":
            yield Prompted(words)
        elif line.get("role") == "assistant" and line.get("delta") is True:
            yield TextDelta(words)

    @classmethod
    def prints(cls, line: dict[str, Any]) -> bool:
        if line.get("type") == "init":
            return "session_id" in line
        if "type" not in line:
            return cls._is_document(line)
        # Other agents have events of the same types.
        is_of_gemini = line.keys() & {"role", "tool_id", "stats", "severity"}
        kinds = ("message", "tool_use", "tool_result", "error", "result")
        return bool(is_of_gemini) and "timestamp" in line and line.get("type") in kinds


class Codex(AgentParser):
    """Codex."""

    preset = preset_of("codex")
    reports_end = True

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("type"), at(line, "item", "type"):
            case "thread.started", _:
                yield from session(line, "thread_id")
            case "item.completed", "agent_message":
                yield from message(line, "item.text")
            case ("item.started" | "item.completed") as kind, (
                "command_execution" | "mcp_tool_call" | "file_change" | "web_search"
            ):
                finished = self._call(line)
                if kind == "item.completed":
                    yield finished
                else:
                    yield CallStarted(
                        finished.id,
                        finished.tool,
                        finished.command,
                        arguments=finished.arguments,
                    )
            case "turn.completed", _:
                yield from tokens(
                    line, "usage.input_tokens", "usage.output_tokens", cumulative=True
                )
                yield TurnEnded()
            case (("error" | "turn.failed"), _):
                # Also "Reconnecting..."; later work clears the failure.
                yield failure(line, "error.message", "message")

    @classmethod
    def prints(cls, line: dict[str, Any]) -> bool:
        kind = text(line.get("type"))
        if kind == "error":
            return line.keys() <= {"type", "message"}
        return kind.startswith(("thread.", "turn.", "item."))

    def _call(self, line: dict[str, Any]) -> CallFinished:
        """Return the call of an item, with the server of its tool or its paths."""
        finished = result(
            line,
            "item.id",
            *("item.aggregated_output", "item.result.content", "item.result"),
            "item.error",
            tool=("item.tool", "item.type"),
            command=("item.command", "item.arguments", "item.changes", "item.query"),
            code="item.exit_code",
            failed="item.status",
        )
        server = text(at(line, "item", "server"))
        if server:
            tool = f"mcp__{server}__{finished.tool}"
            arguments = at(line, "item", "arguments")
            return replace(finished, tool=tool, arguments=arguments)
        paths = []
        for change in items(at(line, "item", "changes")):
            path = text(at(change, "path"))
            if path:
                paths.append(path)
        if paths:
            arguments = {"changes": at(line, "item", "changes")}
            return replace(finished, command=", ".join(paths), arguments=arguments)
        command = at(line, "item", "command")
        if isinstance(command, str):
            return replace(finished, arguments={"command": command})
        return finished

    def details(
        self, failure: Failed, session: str, env: Mapping[str, str]
    ) -> Iterator[StreamEvent]:
        return turn_details(failure, session, env)

    def model_and_version(self, session: str, env: Mapping[str, str]) -> SessionStarted:
        return session_start(session, env)


class OpenCode(AgentParser):
    """opencode."""

    preset = preset_of("opencode")

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        # Each line names the session; a turn records it once.
        yield from session(line, "sessionID")
        match line.get("type"):
            case "text":
                yield from message(line, "part.text")
            case "tool_use":
                # Printed when the call has ended.
                yield result(
                    line,
                    "part.callID",
                    *("part.state.output", "part.state.error"),
                    tool=("part.tool",),
                    command=(
                        "part.state.input.command",
                        "part.state.input.filePath",
                        "part.state.input",
                    ),
                    code="part.state.metadata.exit",
                    failed="part.state.status",
                )
            case "step_finish":
                yield from tokens(
                    line,
                    "part.tokens.input",
                    "part.tokens.output",
                    "part.tokens.cache.read",
                    "part.tokens.cache.write",
                    cost="part.cost",
                )
            case "error":
                yield self._failed(line)

    @classmethod
    def prints(cls, line: dict[str, Any]) -> bool:
        return isinstance(line.get("sessionID"), str) and "type" in line

    def _failed(self, line: dict[str, Any]) -> Failed:
        """Return the failure of a request, or another one."""
        data = at(line, "error", "data")
        status = at(data, "statusCode")
        pairs = _mapping(at(data, "responseHeaders")).items()
        headers = {name: value for name, value in pairs if isinstance(value, str)}
        is_limited = status == RATE_LIMIT
        resets_at = reset_time(headers, datetime.now(UTC), limited=is_limited)
        meaning = meaning_of(status, resets_at=resets_at)
        return failure(
            line,
            *("error.data.message", "error.message", "error.name", "error"),
            outage=meaning.outage,
            obstacle=meaning.obstacle,
        )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# The text before the session id, which is printed after the last line of JSON.
_SESSION = "Conversation ID:"


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
                yield call(
                    line,
                    "tool_call_id",
                    "tool_name",
                    "action.command",
                    "action.path",
                    "action",
                )
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
        if line.startswith(_SESSION):
            words = line.removeprefix(_SESSION).split()
            if words:
                return SessionStarted(words[0])
        return super().other(line)
