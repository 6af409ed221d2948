"""Keeping a chat within the context window of its model, in a form that providers accept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from goalrunner.core.agent_ports import Recorded
from goalrunner.core.ports import Message

SHOWN_CHARACTERS = 20_000
"""Of one tool result; the beginning and the end in equal parts."""

OMISSION = re.compile(r"\n\[\.\.\. ([\d,]{1,15}) characters omitted[^\]\n]*\]\n")
"""The mark of an omission with the line ends around it; group 1 is how many characters."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = {code: "�" for code in (*range(32), 127) if chr(code) not in "\t\n\r"}
_PROBE = 8_000


def head_and_tail(text: str, limit: int, note: str) -> str:
    """`text`, or where it is longer than `limit` its two ends and a mark between them that says how much is missing.

    `note` ends the mark's words. An earlier mark within the part that is cut out is counted with it.
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    head, middle, tail = text[:half], text[half : len(text) - half], text[len(text) - half :]
    missing = len(middle)
    for mark in OMISSION.finditer(middle):
        missing += int(mark[1].replace(",", "") or 0) - len(mark[0])
    return f"{head}\n[... {missing:,} characters omitted{note} ...]\n{tail}"


def shown(recorded: Recorded, limit: int = SHOWN_CHARACTERS) -> str:
    """The text of a tool message: the result's id and what the runner knows of the call, then its output, bounded."""
    facts = ", ".join(recorded.observation.facts)
    heading = f"[{recorded.observation.id}] ({facts})" if facts else f"[{recorded.observation.id}]"
    return f"{heading}\n{_body(recorded, limit)}"


def _body(recorded: Recorded, limit: int) -> str:
    head, tail = recorded.head, recorded.tail
    size = len(head) + recorded.omitted + len(tail)
    if not size:
        return "[no output]"
    if b"\0" in head[:_PROBE]:
        return f"[binary output, {size:,} bytes, beginning with {head[:16].hex(' ')}; the whole output is kept]"
    text = head.decode(errors="replace")
    if tail:
        mark = f"\n[... {recorded.omitted:,} characters omitted ...]\n"
        text = f"{text}{mark}{tail.decode(errors='replace')}"
    text = head_and_tail(text, limit, "; the whole output is kept")
    return _COLOUR.sub("", text).translate(_CONTROL)


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


FULL, AFTERWARDS = 0.9, 0.6
"""Parts of the window: shortened at the one, down to the other, so that it happens seldom."""

_LONGEST_ANSWER = 8_000
"""Tokens that are left free for the answer, or a quarter of a small window."""

_TELLING = 1_000
"""Characters below which a chat says little of how many tokens one is."""


class Gauge:
    """Tokens a character, and what follows from it."""

    def __init__(self) -> None:
        self._density: float | None = None

    @property
    def knows(self) -> bool:
        """Whether anything was learnt yet."""
        return self._density is not None

    def weigh(self, characters: int, tokens: int) -> None:
        """Learn from a chat of so many characters, which the provider counted as so many tokens."""
        if tokens and characters > _TELLING:
            self._density = min(max(tokens / characters, 0.1), 2.0)

    def target(self, characters: int, window: int) -> int | None:
        """To how many characters a chat is to be shortened for a window of so many tokens; None: it has room."""
        if self._density is None:
            return None
        room = window - min(_LONGEST_ANSWER, window // 4)
        return int(room * AFTERWARDS / self._density) if characters * self._density > room * FULL else None


INTERRUPTED = "interrupted; its effect is unknown"
NOT_RUN = "not run: the turn was interrupted before it"

_ODD = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
"""What providers take as the name of a tool."""


def answers_due(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The tool messages that are missing at the end of the chat, in order; none where nothing was interrupted.

    Calls run one after another, so the first without an answer may have begun, and the others have not.
    """
    due = calls_due(messages)
    return [tool_message(call["id"], INTERRUPTED if at == 0 else NOT_RUN) for at, call in enumerate(due)]


def calls_due(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The tool calls at the end of the chat that have no answer yet, in order."""
    answered = 0
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        answered += 1
    asked = messages[-1 - answered] if answered < len(messages) else {}
    calls = (asked.get("tool_calls") or []) if asked.get("role") == "assistant" else []
    return list(calls[answered:])


def tool_message(call_id: str, text: str) -> dict[str, Any]:
    """The answer to one tool call, in OpenAI's shape."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def sendable(message: dict[str, Any]) -> dict[str, Any]:
    """An assistant message whose tool calls have plain names and JSON objects as arguments.

    Providers check both in the history: what a model got wrong once would make each later request fail.
    """
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [_sendable_call(call) for call in calls]}


def never_empty(message: Message) -> Message:
    """The message, or for an assistant message with neither text nor calls one that says so: some providers refuse it."""
    empty = message.get("role") == "assistant" and not message.get("content") and not message.get("tool_calls")
    return {**message, "content": "[no text]"} if empty else message


def _sendable_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    name, arguments = _ODD.sub("_", function["name"])[:_LONGEST_NAME] or "unknown", function["arguments"]
    if not is_object(arguments):
        arguments = json.dumps({"malformed_arguments": arguments}) if arguments.strip() else "{}"
    return {**call, "function": {**function, "name": name, "arguments": arguments}}


def is_object(text: str) -> bool:
    """Whether the text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
