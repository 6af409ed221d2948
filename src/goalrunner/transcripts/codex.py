"""The reader of rollouts of Codex."""

from __future__ import annotations

from typing import Any

from goalrunner.core.messages import at, block_text, text
from goalrunner.transcripts.responses import add_item
from goalrunner.transcripts.row_reader import RowReader


class CodexReader(RowReader):
    """Rollouts of Codex: `~/.codex/sessions/**/rollout-*.jsonl`.

    Events repeat the items of the Responses API, so they add nothing.
    """

    DESCRIPTION = "rollout of Codex (JSON Lines)"
    reporter = "codex"
    _KINDS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
    # The beginnings of user messages that the program itself wrote.
    _CONTEXT = (
        "<environment_context>",
        "<user_instructions>",
        "# AGENTS.md instructions",
        "<permissions",
        "<turn_aborted>",
    )

    def is_typical(self, row: dict[str, Any]) -> bool:
        return row.get("type") in self._KINDS and isinstance(row.get("payload"), dict)

    def is_valid(self, row: Any) -> bool:
        if not isinstance(at(row, "type"), str) or "payload" not in row:
            return False
        return row["type"] != "response_item" or isinstance(row["payload"], dict)

    def add(self, row: Any) -> None:
        payload = row["payload"]
        if row["type"] == "compacted":
            self.trail.claimed(text(at(payload, "message")), summary=True)
        elif row["type"] == "response_item" and not self._is_context(payload):
            add_item(self.trail, payload)

    def _is_context(self, item: dict[str, Any]) -> bool:
        """Return whether an item is a message of the program in the user's name."""
        if item.get("role") != "user":
            return False
        return block_text(item.get("content")).startswith(self._CONTEXT)
