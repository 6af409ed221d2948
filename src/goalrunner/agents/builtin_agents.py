"""The parsers of the built-in agents. Their presets are the files in `presets`, in the format of a user's own preset."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
    SessionStarted,
    StreamEvent,
    TextDelta,
    TurnEnded,
    UsageReported,
)
from goalrunner.core.agent_preset import Preset
from goalrunner.core.errors import Outage
from goalrunner.core.messages import at, block_text, items, text
from goalrunner.core.outages import RATE_LIMIT, reset_time, time_of_epoch, usage_limit


def preset_of(name: str) -> Preset:
    """Return the preset of a built-in agent."""
    file = Path(__file__).with_name("presets") / f"{name}.toml"
    return Preset.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))


_WINDOWS = {"five_hour": "five hours", "seven_day": "seven days"}
"""The limits of a subscription, and how they are shown."""

_SESSION_TOTALS = (2, 1, 277)
"""From this version on, `modelUsage` and `total_cost_usd` are totals of the session; before, of the process. Later versions
report the usage since the last result as well."""


class Claude(AgentParser):
    """Claude Code."""

    preset = preset_of("claude")
    reports_end = True

    def __init__(self) -> None:
        self._limit: Outage | None = None
        self._error = ""
        self._counts_sessions = False
        self._counted = (0, 0, 0.0)

    def events(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        match line.get("type"), line.get("subtype"):
            case "system", "init":
                self._counts_sessions = (
                    _version(line.get("claude_code_version")) >= _SESSION_TOTALS
                )
                yield from session(line, "session_id", "model", "claude_code_version")
            case "system", "api_retry" if (
                line.get("error_status"),
                line.get("attempt"),
            ) == (401, 3):
                # Claude Code may try a wrong key ten times in three minutes. It renews an expired login after the first
                # refusal, so the third refusal ends the round.
                yield failure(line, "error", ends=True, obstacle="sign_in")
            case "rate_limit_event", _:
                self._limit = _used_up(line.get("rate_limit_info")) or self._limit
            case "assistant", _ if line.get("is_api_error_message") is True:
                self._error = text(line.get("error"))  # the result repeats the message
            case "assistant", _:
                self._error = ""  # an earlier error, such as one of a subagent, did not end the turn
                yield from self._said(line)
            case "user", _:
                for block in items(at(line, "message", "content")):
                    if at(block, "type") == "tool_result":
                        yield result(block, "tool_use_id", "content", failed="is_error")
            case "result", _:
                yield from self.usage(line)
                yield (
                    self._failed(line) if line.get("is_error") is True else TurnEnded()
                )

    def _said(self, line: dict[str, Any]) -> Iterator[StreamEvent]:
        """Yield the texts and calls of a message."""
        for block in items(at(line, "message", "content")):
            if at(block, "type") == "text":
                yield from message(block, "text")
            elif at(block, "type") == "tool_use":
                yield call(
                    block, "id", "name", "input.command", "input.file_path", "input"
                )

    def _failed(self, line: dict[str, Any]) -> Failed:
        """Return the failure of a result."""
        meaning = meaning_of(line.get("api_error_status"), self._error)
        outage = meaning.outage
        if line.get("api_error") == "usage_limit_reached" and meaning.obstacle is None:
            outage = usage_limit("", None)
        if outage is not None and outage.kind == "limit":
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
        """Yield the tokens and dollars of a result. On error ends, `usage` lacks the last request."""
        since, totals = (
            line.get("model_usage_since_last_result"),
            line.get("modelUsage"),
        )
        if isinstance(since, dict):
            yield UsageReported(*_sum_of(since))
        elif isinstance(totals, dict) and self._counts_sessions:
            yield UsageReported(*_sum_of(totals), cumulative=True)
        elif isinstance(totals, dict):
            given, made, cost = _sum_of(totals)
            counted, self._counted = self._counted, (given, made, cost)
            if given >= counted[0] and made >= counted[1] and cost >= counted[2]:
                given, made, cost = (
                    given - counted[0],
                    made - counted[1],
                    cost - counted[2],
                )
            yield UsageReported(given, made, cost)
        else:
            cached = (
                "usage.cache_read_input_tokens",
                "usage.cache_creation_input_tokens",
            )
            yield from tokens(
                line,
                "usage.input_tokens",
                "usage.output_tokens",
                *cached,
                cost="total_cost_usd",
            )


def _used_up(limit: Any) -> Outage | None:
    """Return the outage of a subscription's limit if it rejects requests."""
    if at(limit, "status") != "rejected":
        return None
    window = text(at(limit, "rateLimitType"))
    return usage_limit(
        _WINDOWS.get(window, window.replace("_", " ")),
        time_of_epoch(at(limit, "resetsAt")),
    )


def _version(value: Any) -> tuple[int, ...]:
    """Return the numbers of a version; empty if it is none."""
    match = re.match(r"\d{1,6}(\.\d{1,6})*", text(value), re.ASCII)
    return tuple(map(int, match[0].split("."))) if match else ()


def _sum_of(models: dict[str, Any]) -> tuple[int, int, float]:
    """Return the input and output tokens and the dollars of all models. Input includes what was cached."""
    given = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    rows = models.values()
    return (
        sum(int(number(at(row, name)) or 0) for row in rows for name in given),
        sum(int(number(at(row, "outputTokens")) or 0) for row in rows),
        sum(number(at(row, "costUSD")) or 0.0 for row in rows),
    )


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
            case "message" if (
                line.get("role") == "assistant" and line.get("delta") is True
            ):
                if piece := block_text(line.get("content")):
                    yield TextDelta(piece)
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
                failed = line.get("status") == "error"
                yield failure(line, "error.message", "error") if failed else TurnEnded()
            case "error" if line.get("severity") == "error":
                yield failure(line, "message")


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
                found = result(
                    line,
                    "item.id",
                    *("item.aggregated_output", "item.result", "item.error"),
                    tool=("item.tool", "item.type"),
                    command=(
                        "item.command",
                        "item.arguments",
                        "item.changes",
                        "item.query",
                    ),
                    code="item.exit_code",
                    failed="item.status",
                )
                found = _named(found, at(line, "item"))
                yield (
                    CallStarted(found.id, found.tool, found.command)
                    if kind == "item.started"
                    else found
                )
            case "turn.completed", _:
                yield from tokens(
                    line, "usage.input_tokens", "usage.output_tokens", cumulative=True
                )
                yield TurnEnded()
            case (
                ("error" | "turn.failed"),
                _,
            ):  # also "Reconnecting..."; later work clears the failure
                yield failure(line, "error.message", "message")

    def details(
        self, failure: Failed, session: str, env: Mapping[str, str]
    ) -> Iterator[StreamEvent]:
        return turn_details(failure, session, env)

    def model_and_version(self, session: str, env: Mapping[str, str]) -> SessionStarted:
        return session_start(session, env)


def _named(call: CallFinished, item: Any) -> CallFinished:
    """Return a call of Codex with the server of its tool, or the paths of its changes."""
    if server := text(at(item, "server")):
        return replace(call, tool=f"mcp__{server}__{call.tool}")
    if paths := [
        path
        for change in items(at(item, "changes"))
        if (path := text(at(change, "path")))
    ]:
        return replace(call, command=", ".join(paths))
    return call


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
                    command=(
                        "part.state.input.command",
                        "part.state.input.filePath",
                        "part.state.input",
                    ),
                    code="part.state.metadata.exit",
                    failed="part.state.status",
                )
            case "step_finish":
                cached = "part.tokens.cache.read", "part.tokens.cache.write"
                yield from tokens(
                    line,
                    "part.tokens.input",
                    "part.tokens.output",
                    *cached,
                    cost="part.cost",
                )
            case "error":
                yield self._failed(line)

    def _failed(self, line: dict[str, Any]) -> Failed:
        """Return the failure of a request, or another one."""
        status, headers = (
            at(line, "error", "data", "statusCode"),
            at(line, "error", "data", "responseHeaders"),
        )
        values = (
            {name: value for name, value in headers.items() if isinstance(value, str)}
            if isinstance(headers, dict)
            else {}
        )
        resets_at = reset_time(values, datetime.now(UTC), limited=status == RATE_LIMIT)
        meaning = meaning_of(status, resets_at=resets_at)
        paths = ("error.data.message", "error.message", "error.name", "error")
        return failure(line, *paths, outage=meaning.outage, obstacle=meaning.obstacle)


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
        name = line.removeprefix(_SESSION).split() if line.startswith(_SESSION) else []
        return SessionStarted(name[0]) if name else super().other(line)
