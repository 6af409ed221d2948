"""A client that asks the fake provider in each wire format, as a program would."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from tests.support.fake_provider.server import FakeProvider, WireName

SCHEMA = {
    "type": "object",
    "properties": {
        "command": {"type": "string"},
        "description": {"type": "string"},
        "wait": {"type": "integer"},
    },
    "required": ["command", "description"],
}

PATHS: dict[WireName, str] = {
    "openai": "/chat/completions",
    "responses": "/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}


def tools(
    wire: WireName, name: str = "bash", schema: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """One tool, declared as that format wants it."""
    schema = schema or SCHEMA
    match wire:
        case "openai":
            return [
                {"type": "function", "function": {"name": name, "parameters": schema}}
            ]
        case "responses":
            return [{"type": "function", "name": name, "parameters": schema}]
        case "anthropic":
            return [{"name": name, "input_schema": schema}]
        case "gemini":
            return [
                {
                    "functionDeclarations": [
                        {"name": name, "parametersJsonSchema": schema}
                    ]
                }
            ]


def body(
    wire: WireName, *turns: tuple[str, str], stream: bool = False, **more: Any
) -> dict[str, Any]:
    """A request with a conversation: ("user", text), ("model", text), or ("call", command) that was answered."""
    key = {
        "openai": "messages",
        "responses": "input",
        "anthropic": "messages",
        "gemini": "contents",
    }[wire]
    items = [item for who, text in turns for item in _items(wire, who, text)]
    common = {} if wire == "gemini" else {"model": "m", "stream": stream}
    return {key: items, **common, **more}


def _items(wire: WireName, who: str, text: str) -> list[dict[str, Any]]:
    own = "model" if wire == "gemini" else "assistant"
    if who == "call":
        match wire:
            case "openai":
                called = [
                    {
                        "id": "c",
                        "type": "function",
                        "function": {"name": "bash", "arguments": text},
                    }
                ]
                return [
                    {"role": own, "content": None, "tool_calls": called},
                    {"role": "tool", "tool_call_id": "c", "content": ""},
                ]
            case "responses":
                return [
                    {
                        "type": "function_call",
                        "name": "bash",
                        "arguments": text,
                        "call_id": "c",
                    },
                    {"type": "function_call_output", "call_id": "c", "output": ""},
                ]
            case "anthropic":
                return [
                    {
                        "role": own,
                        "content": [
                            {"type": "tool_use", "id": "c", "name": "bash", "input": {}}
                        ],
                    },
                    {
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "tool_use_id": "c", "content": ""}
                        ],
                    },
                ]
            case "gemini":
                return [
                    {
                        "role": own,
                        "parts": [{"functionCall": {"name": "bash", "args": {}}}],
                    },
                    {
                        "role": "user",
                        "parts": [
                            {"functionResponse": {"name": "bash", "response": {}}}
                        ],
                    },
                ]
    role = own if who == "model" else "user"
    return [
        {"role": role, "parts": [{"text": text}]}
        if wire == "gemini"
        else {"role": role, "content": text}
    ]


def ask(
    server: FakeProvider,
    wire: WireName,
    asked: dict[str, Any],
    *,
    path: str = "",
    key: str = "k",
) -> tuple[int, Any]:
    """Status, and the answer: JSON, or the list of a stream's events."""
    request = urllib.request.Request(
        server.base_url(wire) + (path or PATHS[wire]),
        json.dumps(asked).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            raw, status = response.read(), response.status
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
    if not raw.startswith((b"data:", b"event:")):
        return status, json.loads(raw)
    data = [
        line.removeprefix("data: ")
        for line in raw.decode().splitlines()
        if line.startswith("data: ")
    ]
    return status, [json.loads(line) for line in data if line != "[DONE]"]
