"""The reader of messages of the AI SDK of Vercel."""

from __future__ import annotations

from typing import Any

from goalrunner.core.messages import at, block_text, facts_of, items, text
from goalrunner.transcripts.row_reader import RowReader

_FAILURES = ("error-text", "error-json")
_DENIED = "execution-denied"
_ENDED = {"output-available": (), "result": (), "output-error": ("error",)}
"""State of a call in a message for the screen -> facts of its result."""


class AiSdkReader(RowReader):
    """Messages for models (`content`) and for the screen (`parts`)."""

    DESCRIPTION = (
        "messages of the AI SDK (ModelMessage, UIMessage): a JSON array, "
        '{"messages": [...]}, or JSON Lines'
    )
    reporter = "ai-sdk"
    keys = frozenset({"", "messages"})
    _ROLES = ("system", "user", "assistant", "tool")

    def is_typical(self, row: dict[str, Any]) -> bool:
        if row.get("role") not in self._ROLES:
            return False
        return any(_is_of_tool(part) for part in _parts(row))

    def is_valid(self, row: Any) -> bool:
        if at(row, "role") not in self._ROLES:
            return False
        has_content = isinstance(row.get("content"), str | list)
        return has_content or isinstance(row.get("parts"), list)

    def add(self, row: Any) -> None:
        content = row.get("content")
        texts = [content] if isinstance(content, str) else []
        for part in _parts(row):
            if at(part, "type") == "text":
                texts.append(text(part.get("text")))
        words = "\n".join(texts)
        if row["role"] == "user":
            self.trail.user(words)
        elif row["role"] == "assistant":
            self.trail.claimed(words)
        for part in _parts(row):
            if _is_of_tool(part):
                self._add_part(part)

    def _add_part(self, part: dict[str, Any]) -> None:
        kind = part["type"]
        if kind == "tool-invocation":
            part = part.get("toolInvocation") or {}
        identifier, tool = text(part.get("toolCallId")), text(part.get("toolName"))
        arguments = part.get("input") or part.get("args") or {}
        if kind == "tool-call":
            self.trail.called(identifier, tool, arguments)
        elif kind == "tool-result":
            output, facts = _output_and_facts(part)
            self.trail.result(identifier, output, facts, tool=tool)
        elif part.get("state") in _ENDED:
            tool = tool or kind.removeprefix("tool-")
            self.trail.called(identifier, tool, arguments)
            outputs = [part.get(key) for key in ("output", "result", "errorText")]
            output = "\n".join(map(block_text, outputs)).strip("\n")
            self.trail.result(identifier, output, _ENDED[part["state"]])


def _parts(row: Any) -> list[Any]:
    return items(at(row, "parts")) or items(at(row, "content"))


def _is_of_tool(part: Any) -> bool:
    """Return whether a part has a call or a result."""
    kind = text(at(part, "type"))
    # `tool-NAME` in messages for the screen; `tool_use` is of another API.
    return kind.startswith("tool-") or kind == "dynamic-tool"


def _output_and_facts(part: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the text of a result, and what is known of its end."""
    # Older versions write the value itself.
    output = part.get("output", part.get("result"))
    kind = at(output, "type")
    value = at(output, "value") if isinstance(kind, str) else output
    printed = block_text(value)
    if kind == _DENIED:
        return printed or text(at(output, "reason")), ("denied",)
    failed = kind in _FAILURES or part.get("isError") is True
    return printed, facts_of(printed, failed=failed)
