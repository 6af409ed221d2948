"""Sessions of Gemini CLI, Qwen Code and opencode, which are messages with parts, and runs of this program."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from goalrunner.core.messages import as_json, as_text, at, clean, exit_fact, facts_of, items, number, text, text_of
from goalrunner.core.observation import Trail
from goalrunner.core.summary import EvidenceIndex
from goalrunner.records.artifacts import ArtifactStore, read_message
from goalrunner.records.event_log import read_records
from goalrunner.records.redaction import Redactor
from goalrunner.transcripts import RowReader
from goalrunner.transcripts.source import Deliverable, Source

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
    _NO_MESSAGES = frozenset({"$set", "$rewindTo", "projectHash"})
    _CONTEXT = ("<session_context>", "This is the Gemini CLI. We are setting up the context")

    def __init__(self) -> None:
        super().__init__()
        self._messages: dict[str, dict[str, Any]] = {}

    def matches(self, source: Source) -> bool:
        return self.is_typical(source.members) or super().matches(source)

    def is_typical(self, row: dict[str, Any]) -> bool:
        return "projectHash" in row or (row.get("type") == "gemini" and "content" in row)

    def is_valid(self, row: Any) -> bool:
        return isinstance(row, dict) and bool(row.keys() & self._NO_MESSAGES or row.keys() >= {"id", "type", "content"})

    def add(self, row: Any) -> None:
        if target := text(row.get("$rewindTo")):  # the user rewound the conversation
            known = list(self._messages)
            first = known.index(target) if target in known else 0
            for identifier in known[first:]:
                del self._messages[identifier]
        for message in [*items(at(row, "$set", "messages")), *items(row.get("messages")), row]:
            if isinstance(message, dict):
                self._messages[text(message.get("id")) or str(len(self._messages))] = message

    def end(self) -> None:
        for message in self._messages.values():
            said = text_of(message.get("content"))
            if message.get("type") == "user" and said.strip() and not said.startswith(self._CONTEXT):
                self.trail.user()
            elif message.get("type") == "gemini":
                self.trail.said(clean(said))
                for call in items(message.get("toolCalls")):
                    self._call(call)

    def _call(self, call: Any) -> None:
        identifier, status, tool = text(at(call, "id")), text(at(call, "status")), text(at(call, "name"))
        if status in _ENDED:
            self.trail.called(identifier, tool, at(call, "args") or {}, summary=bool(at(call, "agentId")))
            responses = [at(part, "functionResponse", "response") for part in items(at(call, "result"))]
            output = "\n".join(_response_text(one) for one in responses if one is not None)
            self.trail.result(identifier, output, _ENDED[status] or _shell_fact(tool, output))


class Qwen(RowReader):
    """Sessions of Qwen Code: `~/.qwen/projects/*/chats/*.jsonl`. What sub-agents find, and summaries, are claims."""

    DESCRIPTION = "session of Qwen Code (JSON Lines)"
    reporter = "qwen"
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


class GoalRun:
    """The transcript of a run of this program, with the log of the run beside it."""

    DESCRIPTION = "folder of a run of this program, or its transcript.jsonl"

    def matches(self, source: Source) -> bool:
        path = source.path
        return path.name == "transcript.jsonl" and path.with_name("events.jsonl").is_file()

    def read(self, source: Source, deliverable: Deliverable) -> Trail:
        """Return the trail of the run. Raise RecordError if log, transcript or artifacts were changed.

        Observations keep their ids, facts and whole outputs, each checked against its hash in the log. The log contains
        the responses too, so `deliverable` has no effect.
        """
        path = source.path
        index = EvidenceIndex()
        for record in read_records(path.with_name("events.jsonl")):
            index.add(record)
        # Nothing is written, so there is nothing to redact.
        artifacts = ArtifactStore(path.with_name("artifacts"), Redactor({}))
        return index.trail(artifacts.read, partial(read_message, path))
