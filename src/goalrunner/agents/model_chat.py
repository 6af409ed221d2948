"""Truncation of a chat that is too long for its model."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import shortened
from goalrunner.llm.requests import object_arguments

_NOTE = " to fit the context window"
# Characters that a truncation must save: the mark that it leaves takes some itself.
_SAVING = 100


@dataclass(frozen=True)
class _Pass:
    """One pass of a truncation over the chat."""

    longest: int
    """Characters of a text that stay."""
    includes_newest: bool
    """Whether it truncates the newest step, which the model needs most."""


_PASSES = (
    _Pass(1_000, includes_newest=False),
    _Pass(100, includes_newest=False),
    _Pass(1_000, includes_newest=True),
    _Pass(100, includes_newest=True),
)


def size(*messages: Message) -> int:
    """Return the characters of messages as they are sent."""
    texts = (json.dumps(one, ensure_ascii=False, default=str) for one in messages)
    return sum(map(len, texts))


def shorten(
    messages: Sequence[Message], target: int, protected: Collection[int]
) -> list[dict[str, Any]]:
    """Return the chat, truncated to `target` characters or as near as possible.

    The oldest texts are truncated first. `protected` are the indexes of messages that
    are never truncated; system messages never are.
    """
    result = [dict(message) for message in messages]
    weight = size(*messages)
    # The newest step begins with the newest message of the model.
    newest_step = len(result)
    for index, message in enumerate(result):
        if message.get("role") == "assistant":
            newest_step = index
    for step in _PASSES:
        end = len(result) if step.includes_newest else newest_step
        for index, message in enumerate(result[:end]):
            if weight <= target:
                return result
            if index in protected or message.get("role") == "system":
                continue
            result[index] = _cut(message, step.longest)
            weight += size(result[index]) - size(message)
    return result


def _cut(message: Message, longest: int) -> dict[str, Any]:
    """Return the message with its long texts truncated.

    Arguments of calls stay a JSON object, because providers parse them.
    """

    def cut(value: Any) -> Any:
        if not isinstance(value, str) or len(value) <= longest + _SAVING:
            return value
        return shortened(value, longest, _NOTE)

    changed = {**message, "content": cut(message.get("content"))}
    if message.get("tool_calls"):
        changed["tool_calls"] = []
        for call in message["tool_calls"]:
            function = call["function"]
            arguments = json.loads(object_arguments(function["arguments"]))
            arguments = {name: cut(value) for name, value in arguments.items()}
            text = json.dumps(arguments, ensure_ascii=False)
            function = {**function, "arguments": text}
            changed["tool_calls"].append({**call, "function": function})
    return changed
