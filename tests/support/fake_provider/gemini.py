"""Gemini's generateContent: parts of a request, and answers as whole bodies or streams."""

from __future__ import annotations

import json
import re
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

LAST = ""

_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def tools(request: Request) -> list[Tool]:
    """The tools that are offered."""
    found = []
    for group in request.body.get("tools") or ():
        for one in (
            group.get("functionDeclarations")
            or group.get("function_declarations")
            or ()
        ):
            parameters = one.get("parametersJsonSchema") or one.get("parameters") or {}
            found.append(Tool(str(one.get("name", "")), parameters))
    return found


def replies(request: Request) -> list[Reply]:
    """The model's turns in the conversation."""
    return merged(
        [
            (
                one.get("role") == "model",
                Reply(texts(one.get("parts")), _has_call(one.get("parts"))),
            )
            for one in _contents(request)
        ]
    )


def schema(request: Request) -> dict[str, Any] | None:
    """The JSON schema that the answer must have; None: it is free."""
    config = request.body.get("generationConfig") or {}
    found = config.get("responseJsonSchema") or config.get("responseSchema")
    return found if isinstance(found, dict) else None


def streams(request: Request) -> bool:
    """Whether the answer is to come in pieces."""
    return ":streamGenerateContent" in request.path


def failure(status: int, message: str) -> dict[str, Any]:
    """The body of a refusal."""
    return {
        "error": {
            "code": status,
            "message": message,
            "status": _STATUS.get(status, "UNKNOWN"),
        }
    }


def whole(request: Request, answer: Answer) -> dict[str, Any]:
    """The answer as one body."""
    texts_ = [{"text": answer.text}] if answer.text else []
    return _body(request, answer, [*texts_, *_calls(answer)], last=not answer.cut)


def pieces(request: Request, answer: Answer) -> Iterator[dict[str, Any]]:
    """The answer as the chunks of a stream; a cut one has no end."""
    for part in answer.parts:
        yield _body(request, answer, [{"text": part}], last=False)
    if not answer.cut:
        yield _body(request, answer, _calls(answer) or [{"text": ""}], last=True)


def _contents(request: Request) -> list[dict[str, Any]]:
    return [one for one in request.body.get("contents") or () if isinstance(one, dict)]


def _has_call(parts: Any) -> bool:
    listed = parts if isinstance(parts, list) else []
    return any(isinstance(part, dict) and "functionCall" in part for part in listed)


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"functionCall": {"name": name, "args": json.loads(raw)}}
        for name, raw in answer.tool_calls
    ]


def _body(
    request: Request, answer: Answer, parts: list[dict[str, Any]], *, last: bool
) -> dict[str, Any]:
    candidate: dict[str, Any] = {
        "content": {"role": "model", "parts": parts},
        "index": 0,
    }
    if last:
        candidate["finishReason"] = "STOP"
    named = re.search(r"/models/([^/:?]+):", request.path)
    body: dict[str, Any] = {
        "candidates": [candidate],
        "modelVersion": named.group(1) if named else "",
    }
    if last and answer.usage is not None:
        fresh, made = answer.usage
        body["usageMetadata"] = {
            "promptTokenCount": fresh,
            "candidatesTokenCount": made,
            "totalTokenCount": fresh + made,
        }
    return body
