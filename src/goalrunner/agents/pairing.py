"""A chat that providers take: each tool call has its answer, and nothing in it is malformed. Owns those rules; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from goalrunner.ports import Message

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
