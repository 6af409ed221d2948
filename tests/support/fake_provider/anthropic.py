"""Anthropic's messages: parts of a request, and answers as whole bodies or streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.fake_provider.chat import streams as streams
from tests.support.fake_provider.messages import (
    Answer,
    Reply,
    Request,
    Tool,
    merged,
    texts,
)

LAST = ""

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def tools(request: Request) -> list[Tool]:
    """The tools that are offered."""
    declared = request.body.get("tools") or ()
    return [
        Tool(str(one.get("name", "")), one.get("input_schema") or {})
        for one in declared
    ]


def replies(request: Request) -> list[Reply]:
    """The model's turns in the conversation."""
    return merged(
        [
            (
                one.get("role") == "assistant",
                Reply(texts(one.get("content")), _has_call(one.get("content"))),
            )
            for one in request.messages
        ]
    )


def schema(request: Request) -> dict[str, Any] | None:
    """The JSON schema that the answer must have; None: it is free."""
    form = (
        (request.body.get("output_config") or {}).get("format")
        or request.body.get("output_format")
        or {}
    )
    found = form.get("schema")
    return found if isinstance(found, dict) else None


def failure(status: int, message: str) -> dict[str, Any]:
    """The body of a refusal."""
    return {
        "type": "error",
        "error": {"type": _KINDS.get(status, "api_error"), "message": message},
    }


def whole(request: Request, answer: Answer) -> dict[str, Any]:
    """The answer as one body."""
    return {
        **_head(request, answer),
        "content": _content(request, answer),
        "stop_reason": None if answer.cut else _reason(answer),
        "usage": _usage(answer),
    }


def pieces(request: Request, answer: Answer) -> Iterator[dict[str, Any]]:
    """The answer as the events of a stream; a cut one has no end."""
    yield {
        "type": "message_start",
        "message": {
            **_head(request, answer),
            "content": [],
            "usage": _usage(answer, 1),
        },
    }
    for index, block in enumerate(_content(request, answer)):
        if block["type"] == "text":
            yield {
                "type": "content_block_start",
                "index": index,
                "content_block": {"type": "text", "text": ""},
            }
            deltas = [{"type": "text_delta", "text": part} for part in answer.parts]
        else:
            yield {
                "type": "content_block_start",
                "index": index,
                "content_block": {**block, "input": {}},
            }
            deltas = [
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            ]
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        if answer.cut:
            return
        yield {"type": "content_block_stop", "index": index}
    end: dict[str, Any] = {"stop_reason": _reason(answer), "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": _usage(answer)}
    yield {"type": "message_stop"}


def _has_call(content: Any) -> bool:
    parts = content if isinstance(content, list) else []
    return any(
        isinstance(part, dict) and part.get("type") == "tool_use" for part in parts
    )


def _head(request: Request, answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{len(request.messages)}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _content(request: Request, answer: Answer) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = (
        [{"type": "text", "text": answer.text}] if answer.text else []
    )
    turn = len(request.messages)
    for number, (name, arguments) in enumerate(answer.tool_calls, start=1):
        content.append(
            {
                "type": "tool_use",
                "id": f"toolu_{turn}_{number}",
                "name": name,
                "input": json.loads(arguments),
            }
        )
    return content


def _reason(answer: Answer) -> str:
    return "tool_use" if answer.tool_calls else "end_turn"


def _usage(answer: Answer, made: int | None = None) -> dict[str, int]:
    # This format has no way to leave usage out.
    fresh, output = answer.usage or (0, 0)
    zero = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {
        "input_tokens": fresh,
        **zero,
        "output_tokens": output if made is None else made,
    }
