"""Readers of sessions of Gemini CLI and of its fork Qwen Code."""

from __future__ import annotations

import json
import re
from typing import Any

from goalrunner.core.messages import (
    at,
    block_text,
    clean,
    exit_fact,
    items,
    json_of,
    text,
    text_of,
)
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import TranscriptSource
from goalrunner.transcripts.text_store import TextStore

# Lines that the shell tool writes after the output of a command.
_LABELLED = re.compile(
    r"(?:Error|Signal|Background PIDs|Process Group PGID): .*|</untrusted_context>|"
)
_EXIT = re.compile(r"Exit Code: (-?\d{1,10})")

# Status of a call that has ended -> its facts. Other calls have no result yet.
_ENDED: dict[str, tuple[str, ...]] = {
    "success": (),
    "error": ("error",),
    "cancelled": ("interrupted",),
}


def _response_text(response: Any) -> str:
    """Return the text of a function response."""
    for key in ("output", "error", "content"):
        if at(response, key) is not None:
            return block_text(response[key])
    return block_text(response) if isinstance(response, str) else json_of(response)


def _shell_fact(tool: str, output: str) -> tuple[str, ...]:
    """Return the exit code that the shell tool writes after the output, as a fact.

    Empty for other tools, and if there is no exit code.
    """
    if tool != "run_shell_command":
        return ()
    for line in reversed(output.splitlines()):
        exit_line = _EXIT.fullmatch(line)
        if exit_line:
            return exit_fact(int(exit_line[1]))
        # The output of the command begins here; it may imitate the labels.
        if not _LABELLED.fullmatch(line):
            return ()
    return ()


class GeminiReader(RowReader):
    """Sessions of Gemini CLI: `~/.gemini/tmp/*/chats/session-*.json` and `.jsonl`.

    A message is written again when its calls have ended, and without them when the
    session is resumed; it counts once.
    """

    DESCRIPTION = "session of Gemini CLI (JSON or JSON Lines)"
    reporter = "gemini"
    keys = frozenset({"", "messages"})
    # Records that are no messages contain one of these members.
    _NO_MESSAGES = frozenset({"$set", "$rewindTo", "projectHash"})
    # The program writes its own description of the machine as a user message.
    _CONTEXT = (
        "<session_context>",
        "This is the Gemini CLI. We are setting up the context",
    )

    def __init__(self) -> None:
        super().__init__()
        self._store = TextStore()
        self._messages: dict[str, int] = {}
        """By id: the place of the JSON of a message in the store."""

    def matches(self, source: TranscriptSource) -> bool:
        return self.is_typical(source.members) or super().matches(source)

    def is_typical(self, row: dict[str, Any]) -> bool:
        is_answer = row.get("type") == "gemini" and "content" in row
        return "projectHash" in row or is_answer

    def is_valid(self, row: Any) -> bool:
        if not isinstance(row, dict):
            return False
        is_message = row.keys() >= {"id", "type", "content"}
        return is_message or bool(row.keys() & self._NO_MESSAGES)

    def add(self, row: Any) -> None:
        rewind_target = text(row.get("$rewindTo"))
        if rewind_target:
            self._rewind(rewind_target)
        messages = [
            *items(at(row, "$set", "messages")),
            *items(row.get("messages")),
            row,
        ]
        for message in messages:
            if isinstance(message, dict):
                identifier = text(message.get("id")) or str(len(self._messages))
                earlier = self._message(identifier)
                # The later version of a message may lack members of the earlier one.
                json_text = json.dumps({**earlier, **message})
                self._messages[identifier] = self._store.add(json_text)

    def _message(self, identifier: str) -> dict[str, Any]:
        """Return a message; empty if none has this id."""
        place = self._messages.get(identifier)
        if place is None:
            return {}
        message: dict[str, Any] = json.loads(self._store.read(place))
        return message

    def _rewind(self, target: str) -> None:
        """Remove a message that the user withdrew, and those after it."""
        identifiers = list(self._messages)
        # If the target is unknown, no message is certain to have stayed.
        first = identifiers.index(target) if target in identifiers else 0
        for identifier in identifiers[first:]:
            del self._messages[identifier]

    def end(self) -> None:
        for identifier in self._messages:
            message = self._message(identifier)
            words = text_of(message.get("content"))
            if message.get("type") == "user":
                if words.strip() and not words.startswith(self._CONTEXT):
                    self.trail.user(clean(words))
            elif message.get("type") == "gemini":
                self.trail.claimed(clean(words))
                for call in items(message.get("toolCalls")):
                    self._add_call(call)

    def _add_call(self, call: Any) -> None:
        status = text(at(call, "status"))
        if status not in _ENDED:
            return
        identifier = text(at(call, "id"))
        tool = text(at(call, "name"))
        # Calls with the id of an agent are calls of sub-agents.
        is_report = bool(at(call, "agentId"))
        arguments = at(call, "args") or {}
        self.trail.called(identifier, tool, arguments, summary=is_report)
        outputs = []
        for part in items(at(call, "result")):
            response = at(part, "functionResponse", "response")
            if response is not None:
                outputs.append(_response_text(response))
        output = "\n".join(outputs)
        facts = _ENDED[status] or _shell_fact(tool, output)
        self.trail.result(identifier, output, facts)


class QwenReader(RowReader):
    """Sessions of Qwen Code: `~/.qwen/projects/*/chats/*.jsonl`.

    Results of sub-agents' calls and summaries are claims.
    """

    DESCRIPTION = "session of Qwen Code (JSON Lines)"
    reporter = "qwen"
    _MESSAGES = ("user", "assistant", "tool_result")

    def is_typical(self, row: dict[str, Any]) -> bool:
        return "sessionId" in row and isinstance(at(row, "message", "parts"), list)

    def is_valid(self, row: Any) -> bool:
        if not isinstance(at(row, "type"), str) or "sessionId" not in row:
            return False
        if row["type"] not in self._MESSAGES:
            return True
        return isinstance(at(row, "message", "parts"), list)

    def add(self, row: Any) -> None:
        kind = row["type"]
        # A side chain is the conversation of a sub-agent.
        is_inner = bool(row.get("isSidechain"))
        if kind == "system" and row.get("subtype") == "chat_compression":
            self.trail.claimed(json_of(row.get("systemPayload")), summary=True)
        if kind not in self._MESSAGES:
            return
        parts = items(row["message"]["parts"])
        # Thoughts are not part of the answer.
        words = "\n".join(
            text(at(part, "text")) for part in parts if not at(part, "thought")
        )
        if kind == "user" and words.strip() and not is_inner:
            self.trail.user(words)
        elif kind == "assistant":
            self.trail.claimed(words, summary=is_inner)
        status = text(at(row, "toolCallResult", "status"))
        for part in parts:
            self._add_part(part, status, is_inner=is_inner)

    def _add_part(self, part: Any, status: str, *, is_inner: bool) -> None:
        """Add the call or the result in a part; `status` is that of the result."""
        call = at(part, "functionCall")
        if isinstance(call, dict):
            identifier, tool = text(call.get("id")), text(call.get("name"))
            arguments = call.get("args") or {}
            self.trail.called(identifier, tool, arguments, summary=is_inner)
        result = at(part, "functionResponse")
        if isinstance(result, dict):
            identifier, tool = text(result.get("id")), text(result.get("name"))
            output = _response_text(result.get("response"))
            # The exit code says more than the status.
            facts = _shell_fact(tool, output) or _ENDED.get(status, ())
            self.trail.result(identifier, output, facts, tool=tool)
