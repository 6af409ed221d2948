"""What a conversation with an external agent is made of, however it is driven. Owns what is taken over and what was cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goalrunner.model.dialogue import text_of
from goalrunner.ports import Message, ToolResult


def said_in(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """What was told and answered, without what only a chat model knows."""
    texts = ((message.get("role"), text_of(message.get("content"))) for message in messages)
    return [{"role": role, "content": text} for role, text in texts if role in ("user", "assistant") and text]


def cut_call(name: str, tool: str, agent: str) -> ToolResult:
    """The end of a call that an earlier process saw begin: the agent's word at best, and nobody knows what it did."""
    return ToolResult(
        tool_call_id=name,
        tool=tool,
        command="",
        facts=("interrupted",),
        output=b"",
        summary="interrupted",
        writes=False,
        reported_by=agent,
    )
