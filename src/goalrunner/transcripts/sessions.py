"""Sessions of Gemini CLI, Qwen Code and opencode: messages with parts."""

from __future__ import annotations

import re
from typing import Any

from goalrunner.core.json_values import at, items, text
from goalrunner.transcripts.chat import facts_of
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import Source
from goalrunner.transcripts.trail_builder import as_json, as_text, exit_fact, number

_LABELLED = re.compile(r"(?:Error|Signal|Background PIDs|Process Group PGID): .*|</untrusted_context>|")
_EXIT = re.compile(r"Exit Code: (-?\d{1,10})")
_ENDED: dict[str, tuple[str, ...]] = {"success": (), "error": ("error",), "cancelled": ("interrupted",)}


def _response_text(response: Any) -> str:
    """Return the text of a function response."""
    for key in ("output", "error", "content"):
        if at(response, key) is not None:
            return as_text(response[key])
    return as_text(response) if isinstance(response, str) else as_json(response)


def _shell_fact(tool: str, output: str) -> tuple[str, ...]:
    """Return the exit code that the shell tool writes after the output, among other labelled lines at its end."""
    if tool == "run_shell_command":
        for line in reversed(output.splitlines()):
            if found := _EXIT.fullmatch(line):
                return exit_fact(int(found[1]))
            if not _LABELLED.fullmatch(line):
                break
    return ()


class Gemini(RowReader):
    """Sessions of Gemini CLI: `~/.gemini/tmp/*/chats/session-*.json` and `.jsonl`.

    A message is written again when its calls have ended; it counts once.
    """

    DESCRIPTION = "session of Gemini CLI (JSON or JSON Lines)"
    reporter = "gemini"
    keys = frozenset({"", "messages"})
    fault = "a record of a Gemini CLI session: it has no id, type or content"
    _NO_MESSAGES = frozenset({"$set", "$rewindTo", "projectHash"})
    _CONTEXT = ("<session_context>", "This is the Gemini CLI. We are setting up the context")

    def __init__(self) -> None:
        super().__init__()
        self._begins: dict[str, int] = {}  # id of a message -> the number of texts before it
        self._said: dict[str, str] = {}
        self._ended: set[str] = set()

    def matches(self, source: Source) -> bool:
        return any(map(self.is_typical, [source.members, *source.rows]))

    def is_typical(self, row: dict[str, Any]) -> bool:
        return "projectHash" in row or (row.get("type") == "gemini" and "content" in row)

    def is_valid(self, row: Any) -> bool:
        return isinstance(row, dict) and bool(row.keys() & self._NO_MESSAGES or row.keys() >= {"id", "type", "content"})

    def add(self, row: Any) -> None:
        if isinstance(row.get("$rewindTo"), str):
            self.trail.rewind(self._begins.get(row["$rewindTo"], 0))
        for message in [*items(at(row, "$set", "messages")), *items(row.get("messages")), row]:
            if isinstance(message, dict):
                self._message(message)

    def _message(self, row: dict[str, Any]) -> None:
        identifier, kind, content = text(row.get("id")), row.get("type"), row.get("content")
        said = as_text(content)
        known = identifier in self._begins
        self._begins.setdefault(identifier, self.trail.length)
        is_text = isinstance(content, str) or any(isinstance(at(part, "text"), str) for part in items(content))
        if kind == "user" and not known and is_text and not said.startswith(self._CONTEXT):
            self.trail.user()
        if kind == "gemini":
            if said.strip() and self._said.get(identifier) != said[-80:]:
                self._said[identifier] = said[-80:]
                self.trail.said(said)
            for call in items(row.get("toolCalls")):
                self._call(call)

    def _call(self, call: Any) -> None:
        identifier, status = text(at(call, "id")), text(at(call, "status"))
        if status not in _ENDED or identifier in self._ended:
            return
        self._ended.add(identifier)
        tool = text(at(call, "name"))
        self.trail.called(identifier, tool, at(call, "args") or {}, summary=bool(at(call, "agentId")))
        responses = [at(part, "functionResponse", "response") for part in items(at(call, "result"))]
        output = "\n".join(_response_text(one) for one in responses if one is not None)
        self.trail.result(identifier, output, _ENDED[status] or _shell_fact(tool, output))


class Qwen(RowReader):
    """Sessions of Qwen Code: `~/.qwen/projects/*/chats/*.jsonl`. What sub-agents find, and summaries, are claims."""

    DESCRIPTION = "session of Qwen Code (JSON Lines)"
    reporter = "qwen"
    fault = "a record of a Qwen Code session: it has no type, no session, or a message without parts"
    _MESSAGES = ("user", "assistant", "tool_result")

    def is_typical(self, row: dict[str, Any]) -> bool:
        return "sessionId" in row and isinstance(at(row, "message", "parts"), list)

    def is_valid(self, row: Any) -> bool:
        if not isinstance(at(row, "type"), str) or "sessionId" not in row:
            return False
        return row["type"] not in self._MESSAGES or isinstance(at(row, "message", "parts"), list)

    def add(self, row: Any) -> None:
        trail, kind, inner = self.trail, row["type"], bool(row.get("isSidechain"))
        if kind == "system" and row.get("subtype") == "chat_compression":
            trail.said(as_json(row.get("systemPayload")), summary=True)
        if kind not in self._MESSAGES:
            return
        parts = items(row["message"]["parts"])
        said = "\n".join(text(at(part, "text")) for part in parts if not at(part, "thought"))
        if kind == "user" and said.strip() and not inner:
            trail.user()
        elif kind == "assistant":
            trail.said(said, summary=inner)
        for part in parts:
            call, result = at(part, "functionCall"), at(part, "functionResponse")
            if isinstance(call, dict):
                trail.called(text(call.get("id")), text(call.get("name")), call.get("args") or {}, summary=inner)
            if isinstance(result, dict):
                tool, output = text(result.get("name")), _response_text(result.get("response"))
                failed = _ENDED.get(text(at(row, "toolCallResult", "status")), ())
                trail.result(text(result.get("id")), output, _shell_fact(tool, output) or failed, tool=tool)


class OpenCode(RowReader):
    """Sessions of opencode, as `opencode export SESSION` prints them. A summary of the conversation is a claim."""

    DESCRIPTION = "session of opencode: the output of opencode export (JSON)"
    reporter = "opencode"
    keys = frozenset({"messages"})
    fault = "a message of opencode: it has no role or no parts"

    def matches(self, source: Source) -> bool:
        return source.form == "object" and super().matches(source)

    def is_valid(self, row: Any) -> bool:
        return at(row, "info", "role") in ("user", "assistant") and isinstance(at(row, "parts"), list)

    def add(self, row: Any) -> None:
        if row["info"]["role"] == "user":
            self.trail.user()
            return
        for part in items(row["parts"]):
            if at(part, "type") == "text":
                self.trail.said(text(part.get("text")), summary=row["info"].get("summary") is True)
            elif at(part, "type") == "tool" and at(part, "state", "status") in ("completed", "error"):
                state, identifier = part["state"], text(part.get("callID"))
                code, failed = number(at(state, "metadata", "exit")), state["status"] == "error"
                output = as_text(state.get("output")) or as_text(state.get("error"))
                self.trail.called(identifier, text(part.get("tool")), state.get("input") or {})
                self.trail.result(identifier, output, exit_fact(code) or facts_of(output, failed=failed))
