"""Keeping a chat within the context window. Owns what is shortened, and in which order; pure functions over messages.

First the outputs of tools, oldest first, then what the agent said and wrote in its calls, then the newest outputs, then the
user messages in between. What is protected is never touched, and no message is ever dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from goalrunner.agents.shown import head_and_tail
from goalrunner.ports import Message

_NOTE = " to fit the context window"
_SAVING = 100
"""Characters that a shortening must save at least; below it the mark costs more than it gives."""


@dataclass(frozen=True)
class _Pass:
    """One sweep: which messages (role, and whether those of the newest step too), and how many characters are left."""

    role: str
    newest: bool
    keep: int


_PASSES = (
    _Pass("tool", newest=False, keep=1_000),
    _Pass("assistant", newest=False, keep=1_000),
    _Pass("tool", newest=False, keep=100),
    _Pass("assistant", newest=False, keep=100),
    _Pass("tool", newest=True, keep=2_000),
    _Pass("user", newest=True, keep=1_000),
    _Pass("assistant", newest=True, keep=500),
    _Pass("tool", newest=True, keep=100),
    _Pass("user", newest=True, keep=100),
)


def size(message: Message) -> int:
    """Characters that a message weighs, its tool calls included."""
    content = message.get("content")
    text = len(content) if isinstance(content, str) else len(json.dumps(content, default=str)) if content else 0
    calls = message.get("tool_calls") or ()
    return text + sum(len(call["function"]["name"]) + len(call["function"]["arguments"]) + 40 for call in calls) + 20


def total(messages: Sequence[Message]) -> int:
    """Characters that a chat weighs."""
    return sum(size(message) for message in messages)


def shorten(messages: Sequence[Message], target: int, protected: Collection[int]) -> list[Message] | None:
    """The chat shortened until it weighs at most `target` characters, or as near as it gets; None when nothing is left.

    `protected` are the places of messages that stay as they are; system messages always do.
    """
    result = list(messages)
    weight = before = total(result)
    newest = max((at for at, message in enumerate(result) if message.get("role") == "assistant"), default=len(result))
    for sweep in _PASSES:
        for at, message in enumerate(result):
            if weight <= target:
                return result
            if at in protected or message.get("role") != sweep.role or (at >= newest and not sweep.newest):
                continue
            result[at] = _shortened(message, sweep.keep)
            weight += size(result[at]) - size(message)
    return result if weight < before else None


def _shortened(message: Message, keep: int) -> Message:
    changed = dict(message)
    content = message.get("content")
    if isinstance(content, str):
        changed["content"] = _cut(content, keep)
    elif isinstance(content, list):
        changed["content"] = [_cut_block(block, keep) for block in content]
    if message.get("tool_calls"):
        changed["tool_calls"] = [_cut_call(call, keep) for call in message["tool_calls"]]
    return changed


def _cut(text: str, keep: int) -> str:
    return head_and_tail(text, keep, _NOTE) if len(text) > keep + _SAVING else text


def _cut_block(block: Any, keep: int) -> Any:
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return {**block, "text": _cut(block["text"], keep)}
    return block


def _cut_call(call: dict[str, Any], keep: int) -> dict[str, Any]:
    """A call with its long strings cut; its arguments stay a JSON object, for providers parse them."""
    function = call["function"]
    if len(function["arguments"]) <= keep + _SAVING:
        return call
    try:
        arguments = _mapped(json.loads(function["arguments"]), lambda text: _cut(text, keep))
    except (ValueError, RecursionError):
        arguments = {"malformed_arguments": _cut(function["arguments"], keep)}
    return {**call, "function": {**function, "arguments": json.dumps(arguments, ensure_ascii=False)}}


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    return [_mapped(inner, change) for inner in value] if isinstance(value, list) else value
