"""OpenAI's chat completions: parts of a request, and answers as whole bodies or streams."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tests.support.fake_provider.messages import (
    Answer,
    Reply,
    Request,
    Tool,
    merged,
    texts,
)

LAST = "[DONE]"
"""What ends a stream."""

_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


def tools(request: Request) -> list[Tool]:
    """The tools that are offered."""
    functions = [tool.get("function") or {} for tool in request.body.get("tools") or ()]
    return [
        Tool(str(one.get("name", "")), one.get("parameters") or {}) for one in functions
    ]


def replies(request: Request) -> list[Reply]:
    """The model's turns in the conversation."""
    return merged(
        [
            (
                one.get("role") == "assistant",
                Reply(texts(one.get("content")), bool(one.get("tool_calls"))),
            )
            for one in request.messages
        ]
    )


def schema(request: Request) -> dict[str, Any] | None:
    """The JSON schema that the answer must have; None: it is free."""
    form = request.body.get("response_format") or {}
    found = (form.get("json_schema") or {}).get("schema") or form.get("schema")
    return found if isinstance(found, dict) else None


def streams(request: Request) -> bool:
    """Whether the answer is to come in pieces."""
    return bool(request.body.get("stream"))


def failure(status: int, message: str) -> dict[str, Any]:
    """The body of a refusal."""
    return {"error": {"message": message, "type": "error", "code": _CODES.get(status)}}


def pieces(request: Request, answer: Answer) -> Iterator[dict[str, Any]]:
    """The answer as the chunks of a stream; a cut one has no end."""
    head = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": request.model,
    }

    def piece(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {
            **head,
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }

    yield piece({"role": "assistant", "content": ""})
    for part in answer.parts:
        yield piece({"content": part})
    for index, tool_call in enumerate(_tool_calls(request, answer)):
        function = tool_call["function"]
        first = {
            **tool_call,
            "index": index,
            "function": {"name": function["name"], "arguments": ""},
        }
        yield piece({"tool_calls": [first]})
        arguments = function["arguments"]
        size = 3 if answer.repeat_names else max(1, -(-len(arguments) // 2))
        name = {"name": function["name"]} if answer.repeat_names else {}
        for start in range(0, len(arguments), size):
            part = arguments[start : start + size]
            yield piece(
                {
                    "tool_calls": [
                        {"index": index, "function": {**name, "arguments": part}}
                    ]
                }
            )
    if answer.cut:
        return
    yield piece({}, answer.reason)
    wanted = (request.body.get("stream_options") or {}).get("include_usage")
    if wanted and answer.usage is not None:
        yield {**head, "choices": [], "usage": _usage(answer.usage)}


def whole(request: Request, answer: Answer) -> dict[str, Any]:
    """The answer as one body; a cleanly cut one has no finish reason."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.tool_calls:
        message["tool_calls"] = _tool_calls(request, answer)
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.model,
    }
    body["choices"] = [
        {
            "index": 0,
            "message": message,
            "finish_reason": None if answer.cut else answer.reason,
        }
    ]
    if answer.usage is not None:
        body["usage"] = _usage(answer.usage)
    return body


def _tool_calls(request: Request, answer: Answer) -> list[dict[str, Any]]:
    # The number of messages makes ids unique through a conversation, and the same in every run.
    turn = len(request.messages)
    made = [
        {
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, (name, arguments) in enumerate(answer.tool_calls, start=1)
    ]
    if not answer.call_ids:
        for tool_call in made:
            del tool_call["id"]
    return made


def _usage(usage: tuple[int, int]) -> dict[str, int]:
    return {
        "prompt_tokens": usage[0],
        "completion_tokens": usage[1],
        "total_tokens": sum(usage),
    }
