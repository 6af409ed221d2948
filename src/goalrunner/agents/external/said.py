"""What a conversation with an external agent is made of, however it is driven. Owns what is taken over, kept and cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from goalrunner.model.dialogue import text_of
from goalrunner.ports import Message, ToolResult, Unfinished


@dataclass(frozen=True)
class Checkpoint:
    """What was said. An agent's own memory only grows, so no checkpoint holds it."""

    messages: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Self:
        """The conversation as it is now."""
        return cls(tuple(dict(message) for message in messages))


def said_at(checkpoint: object) -> list[dict[str, Any]]:
    """The conversation as it was then. Raises TypeError for what is no checkpoint of an external agent's."""
    if not isinstance(checkpoint, Checkpoint):
        raise TypeError(f"not a checkpoint of an external agent: {type(checkpoint).__name__}")
    return [dict(message) for message in checkpoint.messages]


def said_in(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """What was told and answered, without what only a chat model knows."""
    texts = ((message.get("role"), text_of(message.get("content"))) for message in messages)
    return [{"role": role, "content": text} for role, text in texts if role in ("user", "assistant") and text]


def cut_call(name: str, left: Unfinished, agent: str, unnamed: str) -> ToolResult:
    """The end of a call that an earlier process saw begin: the agent's word at best, and nobody knows what it did.

    `unnamed` is the tool where it was not told.
    """
    tool, command = left.told.get(name, (unnamed, ""))
    return ToolResult(
        tool_call_id=name,
        tool=tool,
        command=command,
        facts=("interrupted",),
        output=b"",
        summary="interrupted",
        writes=False,
        reported_by=agent,
    )
