"""The reader of messages of LangChain, which are also the state of LangGraph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from goalrunner.core.messages import (
    at,
    block_text,
    calls_of,
    facts_of,
    items,
    text,
    text_of,
)
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import TranscriptSource

# The types of messages in dumps, and their classes.
_KINDS = {
    "human": "user",
    "HumanMessage": "user",
    "HumanMessageChunk": "user",
    "ai": "agent",
    "AIMessage": "agent",
    "AIMessageChunk": "agent",
    "tool": "tool",
    "ToolMessage": "tool",
    "system": "other",
    "SystemMessage": "other",
    "remove": "other",
}


@dataclass(frozen=True)
class _Message:
    kind: str
    fields: dict[str, Any]


class LangChainReader(RowReader):
    """Messages, as `messages_to_dict`, `dumpd` or `model_dump` write them."""

    DESCRIPTION = (
        "messages of LangChain or state of LangGraph: a JSON array, "
        '{"messages": [...]}, or JSON Lines'
    )
    reporter = "langchain"
    keys = frozenset({"", "messages"})

    def matches(self, source: TranscriptSource) -> bool:
        rows = (row for record in source.sample for row in _rows(record.value))
        return any(map(self.is_typical, rows))

    def is_typical(self, row: Any) -> bool:
        message = _message_of(row)
        return message is not None and message.kind in ("user", "agent", "tool")

    def is_valid(self, row: Any) -> bool:
        return _message_of(row) is not None

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        for row in super().rows(source):
            yield from _rows(row)

    def add(self, row: Any) -> None:
        message = _message_of(row)
        assert message is not None, "it is valid"
        fields = message.fields
        content = fields.get("content")
        match message.kind:
            case "user":
                self.trail.user(text_of(content))
            case "agent":
                self.trail.claimed(text_of(content))
                self._add_calls(fields)
            case "tool":
                output = block_text(content)
                facts = facts_of(output, failed=fields.get("status") == "error")
                identifier = text(fields.get("tool_call_id"))
                tool = text(fields.get("name"))
                self.trail.result(identifier, output, facts, tool=tool)

    def _add_calls(self, fields: dict[str, Any]) -> None:
        calls = items(fields.get("tool_calls"))
        for call in calls:
            identifier, tool = text(at(call, "id")), text(at(call, "name"))
            self.trail.called(identifier, tool, at(call, "args") or {})
        if not calls:
            # Blocks of the provider are there as well; older dumps have only these.
            for block in calls_of(fields):
                self.trail.called(block.id, block.name, block.arguments)


def _rows(value: Any) -> list[Any]:
    """Return the messages in a record: a state of LangGraph has them in `values`."""
    messages = at(value, "values", "messages")
    return messages if isinstance(messages, list) else [value]


def _message_of(row: Any) -> _Message | None:
    """Return the message in a row; None if there is none."""
    if at(row, "type") == "constructor":
        path = items(at(row, "id"))
        name = text(path[-1]) if path else ""
        fields = at(row, "kwargs")
    else:
        name = text(at(row, "type"))
        fields = at(row, "data") or row
    kind = _KINDS.get(name)
    if kind is None or not isinstance(fields, dict) or "content" not in fields:
        return None
    # Messages of other programs have a role.
    return None if "role" in fields else _Message(kind, fields)
