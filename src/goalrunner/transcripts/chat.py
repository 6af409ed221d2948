"""Readers of chat messages in the shapes of OpenAI's and Anthropic's APIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalrunner.core.chat_trail import add_message
from goalrunner.core.messages import KNOWN_BLOCKS, ROLES, at, items, unknown_block
from goalrunner.transcripts.row_reader import RowReader
from goalrunner.transcripts.source import TranscriptSource


class ChatReader(RowReader):
    """Reads chat messages."""

    keys = frozenset({"", "messages"})

    def add(self, row: Mapping[str, Any]) -> None:
        add_message(self.trail, row)


class OpenAIChatReader(ChatReader):
    """OpenAI chat messages. As the last format it reports the errors in any chat."""

    DESCRIPTION = (
        'OpenAI chat messages: a JSON array, {"messages": [...]}, or JSON Lines'
    )
    fault = (
        "a chat message: it has no known role, or content that is neither text nor "
        f"blocks ({KNOWN_BLOCKS})"
    )

    def matches(self, source: TranscriptSource) -> bool:
        # An object with records under another name is not a chat.
        if "messages" in source.members:
            return True
        if source.members:
            return False
        # Without a message, an empty list is still an empty chat.
        has_role = any("role" in row for row in source.rows)
        return has_role or (source.is_json and not source.sample)

    def is_valid(self, row: Any) -> bool:
        role = at(row, "role")
        content = at(row, "content")
        if not isinstance(role, str) or role not in ROLES:
            return False
        # Messages that only call tools have no content.
        if not isinstance(content, str | list | None):
            return False
        return not unknown_block(content)


class AnthropicReader(ChatReader):
    """Messages of Anthropic's API."""

    DESCRIPTION = (
        "messages of Anthropic's API: a JSON array, "
        '{"messages": [...]}, a response, or JSON Lines'
    )
    # Blocks that no other API has.
    _BLOCKS = (
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "mcp_tool_use",
    )

    def is_typical(self, row: dict[str, Any]) -> bool:
        if row.get("role") not in ("user", "assistant"):
            return False
        # A response of the API, which names its model.
        if row.get("type") == "message" and "model" in row:
            return True
        if "type" in row:
            return False
        blocks = items(row.get("content"))
        return any(at(block, "type") in self._BLOCKS for block in blocks)

    def is_valid(self, row: Any) -> bool:
        has_role = at(row, "role") in ("user", "assistant", "system")
        return has_role and isinstance(at(row, "content"), str | list)
