"""Chat messages as providers take them. Owns what is mended before they go out; changes none of what is kept.

A model's malformed tool arguments stay in the conversation as it wrote them. Providers behind LiteLLM parse them
again, and answer 400 or 500 to what is no JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from goalrunner.ports import Message

MALFORMED = "malformed_arguments"
"""The key under which arguments that are no JSON object are sent."""


def mend(messages: Sequence[Message], *, keep_empty: bool = True) -> list[dict[str, Any]]:
    """The messages as new dicts: content never None, arguments always a JSON object, text without lone surrogates.

    Without `keep_empty` an empty content beside tool calls is left out: LiteLLM would fill it with words of its own for
    providers that take none. Servers of OpenAI's kind want it there.
    """
    return [_mend_message(message, keep_empty) for message in messages]


def _mend_message(message: Message, keep_empty: bool) -> dict[str, Any]:
    mended = dict(message)
    if isinstance(mended.get("content"), str):
        mended["content"] = sound(mended["content"])
    elif mended.get("content") is None:
        mended["content"] = ""
    if mended.get("tool_calls"):
        mended["tool_calls"] = [_mend_call(call) for call in mended["tool_calls"]]
        if not keep_empty and not mended["content"]:
            del mended["content"]
    return mended


def _mend_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    return {**call, "function": {**function, "arguments": _mend_arguments(arguments)}}


def _mend_arguments(arguments: object) -> str:
    if not isinstance(arguments, str):
        return json.dumps(arguments if isinstance(arguments, dict) else {})
    if not arguments.strip():
        return "{}"
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        parsed = None
    return sound(arguments) if isinstance(parsed, dict) else json.dumps({MALFORMED: sound(arguments)})


def sound(text: str) -> str:
    """The text without lone surrogates, which no request can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
