"""The reader of sessions of goose."""

from __future__ import annotations

from typing import Any

from goalrunner.core.messages import at, block_text, facts_of, items, text
from goalrunner.transcripts.row_reader import RowReader


class GooseReader(RowReader):
    """Sessions: `~/.local/share/goose/sessions/*.jsonl`, or `goose session export`."""

    DESCRIPTION = "session of goose (JSON Lines), or its export (JSON)"
    reporter = "goose"
    keys = frozenset({"", "conversation", "messages"})
    _BLOCKS = ("toolRequest", "toolResponse")

    def is_typical(self, row: dict[str, Any]) -> bool:
        if "working_dir" in row:
            return True
        return any(at(block, "type") in self._BLOCKS for block in _blocks(row))

    def is_valid(self, row: Any) -> bool:
        if not isinstance(row, dict):
            return False
        is_message = row.get("role") in ("user", "assistant") and "created" in row
        return "working_dir" in row or is_message

    def add(self, row: Any) -> None:
        words = []
        for block in _blocks(row):
            match at(block, "type"):
                case "text":
                    words.append(text(block.get("text")))
                case "toolRequest":
                    self._add_call(block)
                case "toolResponse":
                    self._add_result(block)
        message_text = "\n".join(words)
        if row.get("role") == "user" and message_text.strip():
            self.trail.user(message_text)
        elif row.get("role") == "assistant":
            self.trail.claimed(message_text)

    def _add_call(self, block: dict[str, Any]) -> None:
        call = at(block, "toolCall", "value")
        arguments = at(call, "arguments") or {}
        self.trail.called(text(block.get("id")), text(at(call, "name")), arguments)

    def _add_result(self, block: dict[str, Any]) -> None:
        result = block.get("toolResult")
        value = at(result, "value")
        # Newer versions write an object with the content.
        content = at(value, "content") if isinstance(value, dict) else value
        output = block_text(content) or block_text(at(result, "error"))
        failed = at(value, "isError") is True or at(result, "status") == "error"
        facts = facts_of(output, failed=failed)
        self.trail.result(text(block.get("id")), output, facts)


def _blocks(row: Any) -> list[Any]:
    return items(at(row, "content"))
