"""Readers of what Cursor's agent prints for programs, and of its saved transcripts."""

from __future__ import annotations

from typing import Any

from goalrunner.core.messages import (
    at,
    block_text,
    exit_fact,
    items,
    parsed,
    text,
    text_of,
)
from goalrunner.transcripts.row_reader import RowReader

_SUFFIX = "ToolCall"
_REFUSED = ("rejected", "permissionDenied")
_PRINTED = ("stdout", "stderr", "interleavedOutput", "output", "content")
"""Members of a result with what the tool printed."""


class CursorStreamReader(RowReader):
    """Output of `cursor-agent -p --output-format stream-json`."""

    DESCRIPTION = "output of Cursor's agent for programs (JSON Lines)"
    reporter = "cursor"

    def is_typical(self, row: dict[str, Any]) -> bool:
        return row.get("type") == "tool_call" and isinstance(row.get("tool_call"), dict)

    def is_valid(self, row: Any) -> bool:
        if not isinstance(at(row, "type"), str) or "uuid" in row:
            return False
        return isinstance(row.get("session_id"), str)

    def add(self, row: Any) -> None:
        match row["type"], row.get("subtype"):
            case "user", _:
                self.trail.user(text_of(at(row, "message", "content")))
            case "assistant", _:
                self.trail.claimed(text_of(at(row, "message", "content")))
            case "tool_call", "completed":
                self._add_call(text(row.get("call_id")), row.get("tool_call"))

    def _add_call(self, identifier: str, call: Any) -> None:
        """Add a call with its result, which is in an object named for its tool."""
        if not isinstance(call, dict):
            return
        for key, fields in call.items():
            if not isinstance(fields, dict):
                continue
            tool = text(fields.get("name")) or key.removesuffix(_SUFFIX)
            arguments = fields.get("args") or parsed(fields.get("arguments")) or {}
            self.trail.called(identifier, tool, arguments)
            output, facts = _output_and_facts(fields.get("result"))
            self.trail.result(identifier, output, facts)
            return


def _output_and_facts(result: Any) -> tuple[str, tuple[str, ...]]:
    """Return the text of a result, and what is known of its end."""
    if not isinstance(result, dict) or not result:
        return block_text(result), ()
    kind, value = next(iter(result.items()))
    printed = [block_text(at(value, key)) for key in _PRINTED]
    output = "\n".join(filter(None, printed)) or block_text(value)
    if kind in _REFUSED:
        return output, ("denied",)
    facts = exit_fact(at(value, "exitCode"))
    if not facts and kind != "success":
        facts = ("error",)
    return output, facts


class CursorReader(RowReader):
    """Transcripts of Cursor: `~/.cursor/projects/*/agent-transcripts/*.jsonl`.

    They contain calls without results.
    """

    DESCRIPTION = "transcript of Cursor, which has no results of tools (JSON Lines)"
    reporter = "cursor"
    _ROLES = ("user", "assistant")

    def is_typical(self, row: dict[str, Any]) -> bool:
        if "type" in row or row.get("role") not in self._ROLES:
            return False
        return isinstance(at(row, "message", "content"), list)

    def is_valid(self, row: Any) -> bool:
        if isinstance(at(row, "type"), str):
            return True
        return at(row, "role") in self._ROLES and isinstance(at(row, "message"), dict)

    def add(self, row: Any) -> None:
        content = at(row, "message", "content")
        if row.get("role") == "user":
            self.trail.user(_without_tags(text_of(content)))
        elif row.get("role") == "assistant":
            self.trail.claimed(text_of(content))
            for block in items(content):
                if at(block, "type") == "tool_use":
                    identifier = text(block.get("id"))
                    arguments = block.get("input") or {}
                    self.trail.called(identifier, text(block.get("name")), arguments)
                elif at(block, "type") == "tool_result":
                    output = block_text(block.get("content"))
                    self.trail.result(text(block.get("tool_use_id")), output)


def _without_tags(words: str) -> str:
    """Return the text of the user without the tags that the program puts around it."""
    inner = words.strip()
    return inner.removeprefix("<user_query>").removesuffix("</user_query>").strip()
