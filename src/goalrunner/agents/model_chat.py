"""Truncation of a chat that is too long for its model."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import shortened
from goalrunner.llm.requests import object_arguments

_NOTE = " to fit the context window"
_SAVING = 100
"""Characters that a truncation must save: the mark that it leaves takes some itself."""
_PASSES = ((1_000, False), (100, False), (1_000, True), (100, True))
"""The passes of a truncation: the characters of a text that are kept, and whether the newest step is included."""


def size(*messages: Message) -> int:
    """Return the characters of messages as they are sent."""
    return sum(
        len(json.dumps(message, ensure_ascii=False, default=str))
        for message in messages
    )


def shorten(
    messages: Sequence[Message], target: int, protected: Collection[int]
) -> list[dict[str, Any]]:
    """Return the chat, truncated to `target` characters or as near as possible.

    The oldest texts are truncated first. `protected` are the indexes of messages that are never truncated; system
    messages never are.
    """
    result = [dict(message) for message in messages]
    weight = size(*messages)
    newest = max(
        (at for at, message in enumerate(result) if message.get("role") == "assistant"),
        default=len(result),
    )
    for keep, includes_newest in _PASSES:
        for at, message in enumerate(result):
            if weight <= target:
                return result
            if (
                at not in protected
                and message.get("role") != "system"
                and (at < newest or includes_newest)
            ):
                result[at] = _cut(message, keep)
                weight += size(result[at]) - size(message)
    return result


def _cut(message: Message, keep: int) -> dict[str, Any]:
    """Return the message with its long texts truncated. Arguments stay a JSON object, because providers parse them."""

    def cut(value: Any) -> Any:
        is_long = isinstance(value, str) and len(value) > keep + _SAVING
        return shortened(value, keep, _NOTE) if is_long else value

    changed = {**message, "content": cut(message.get("content"))}
    if message.get("tool_calls"):
        changed["tool_calls"] = []
        for call in message["tool_calls"]:
            given = json.loads(object_arguments(call["function"]["arguments"]))
            arguments = {name: cut(value) for name, value in given.items()}
            function = {
                **call["function"],
                "arguments": json.dumps(arguments, ensure_ascii=False),
            }
            changed["tool_calls"].append({**call, "function": function})
    return changed
