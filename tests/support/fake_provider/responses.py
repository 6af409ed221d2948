"""OpenAI's Responses: parts of a request, and answers as whole bodies or streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.fake_provider.chat import failure as failure
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

_INPUTS = {
    "function_call": ("function_call_arguments", "arguments"),
    "custom_tool_call": ("custom_tool_call_input", "input"),
}
"""Type of a call -> the events that carry what it is called with, and the key under which it stands."""


def tools(request: Request) -> list[Tool]:
    """The tools that are offered: at the top, within a namespace, or as an item of the conversation."""
    found: list[Tool] = []
    waiting = list(request.body.get("tools") or ())
    waiting += [one for item in _items(request) for one in item.get("tools") or ()]
    while waiting:
        one = waiting.pop(0)
        waiting += one.get("tools") or ()
        free = one.get("type") == "custom"
        found.append(Tool(str(one.get("name", "")), one.get("parameters") or {}, free))
    return found


def replies(request: Request) -> list[Reply]:
    """The model's turns in the conversation."""
    return merged([(_own(item), _reply(item)) for item in _items(request)])


def schema(request: Request) -> dict[str, Any] | None:
    """The JSON schema that the answer must have; None: it is free."""
    found = ((request.body.get("text") or {}).get("format") or {}).get("schema")
    return found if isinstance(found, dict) else None


def whole(request: Request, answer: Answer) -> dict[str, Any]:
    """The answer as one body."""
    return _response(
        request,
        answer,
        _output(request, answer),
        "incomplete" if answer.cut else "completed",
    )


def pieces(request: Request, answer: Answer) -> Iterator[dict[str, Any]]:
    """The answer as the events of a stream; a cut one has no end."""
    number = -1

    def event(kind: str, **keys: Any) -> dict[str, Any]:
        nonlocal number
        number += 1
        return {"type": f"response.{kind}", "sequence_number": number, **keys}

    output = _output(request, answer)
    yield event("created", response=_response(request, answer, [], "in_progress"))
    for index, item in enumerate(output):
        yield event("output_item.added", output_index=index, item=_begun(item))
        if item["type"] == "message":
            where = {"item_id": item["id"], "output_index": index, "content_index": 0}
            for part in answer.parts:
                yield event("output_text.delta", **where, delta=part)
            if answer.cut:
                return
            yield event("output_text.done", **where, text=answer.text)
        else:
            kind, key = _INPUTS[item["type"]]
            where = {"item_id": item["id"], "output_index": index}
            yield event(f"{kind}.delta", **where, delta=item[key])
            if answer.cut:
                return
            yield event(f"{kind}.done", **where, **{key: item[key]})
        yield event("output_item.done", output_index=index, item=item)
    if not answer.cut:
        yield event(
            "completed", response=_response(request, answer, output, "completed")
        )


def _items(request: Request) -> list[dict[str, Any]]:
    given = request.body.get("input")
    return (
        [item for item in given if isinstance(item, dict)]
        if isinstance(given, list)
        else []
    )


def _own(item: dict[str, Any]) -> bool:
    return item.get("role") == "assistant" or item.get("type") in (
        *_INPUTS,
        "reasoning",
    )


def _reply(item: dict[str, Any]) -> Reply:
    return Reply(texts(item.get("content")), item.get("type") in _INPUTS)


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = (
        {"content": []} if item["type"] == "message" else {_INPUTS[item["type"]][1]: ""}
    )
    return {**item, "status": "in_progress", **empty}


def _output(request: Request, answer: Answer) -> list[dict[str, Any]]:
    turn = len(_items(request))
    output: list[dict[str, Any]] = []
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        message = {
            "type": "message",
            "id": f"msg_{turn}",
            "role": "assistant",
            "status": "completed",
        }
        output.append({**message, "content": content})
    free = {tool.name for tool in tools(request) if tool.free}
    for number, (name, raw) in enumerate(answer.tool_calls, start=1):
        kind = "custom_tool_call" if name in free else "function_call"
        ids = {"id": f"fc_{turn}_{number}", "call_id": f"call_{turn}_{number}"}
        output.append(
            {
                "type": kind,
                **ids,
                "name": name,
                _INPUTS[kind][1]: raw,
                "status": "completed",
            }
        )
    return output


def _response(
    request: Request, answer: Answer, output: list[dict[str, Any]], status: str
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": f"resp_{len(_items(request))}",
        "object": "response",
        "created_at": 0,
        "model": request.model,
        "status": status,
        "output": output,
    }
    if answer.usage is not None and status != "in_progress":
        fresh, made = answer.usage
        body["usage"] = {
            "input_tokens": fresh,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": fresh + made,
        }
    return body
