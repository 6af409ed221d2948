"""Messages in the formats of the frameworks and in OpenAI's format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from goalrunner.core.agent_ports import Message
from goalrunner.core.messages import blocks_of


def call_block(call_id: str, name: str, arguments: object) -> dict[str, Any]:
    """Return a tool call in OpenAI's format.

    `arguments` are JSON text, or a value to convert to JSON.
    """
    text = arguments
    if not isinstance(text, str):
        text = json.dumps(arguments, ensure_ascii=False, default=str)
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": text},
    }


def openai_messages(message: Message) -> list[dict[str, Any]]:
    """Convert a message of blocks to OpenAI's format; each tool result is a message.

    Strands, Bedrock and Anthropic have such messages.
    """
    blocks = blocks_of(message["content"])
    # OpenAI's messages have one text.
    text = "\n".join(block.text for block in blocks if block.kind == "text")
    converted: list[dict[str, Any]] = []
    if message["role"] == "assistant":
        entry: dict[str, Any] = {"role": "assistant", "content": text}
        calls = [
            call_block(block.id, block.name, block.arguments)
            for block in blocks
            if block.kind == "call"
        ]
        if calls:
            entry["tool_calls"] = calls
        return [entry]
    for block in blocks:
        if block.kind == "result":
            result = {"role": "tool", "tool_call_id": block.id, "content": block.text}
            converted.append(result)
    # Results come first: providers want them right after their calls.
    if text or not converted:
        converted.append({"role": message["role"], "content": text})
    return converted


_SHOWN = ("image", "document", "video", "audio")


def shown_content(content: object) -> str:
    """Return the text of a message, with other input as its kind: "[image]"."""
    if isinstance(content, str):
        return content.strip()
    parts: list[str] = []
    for block in blocks_of(content):
        if block.kind == "text":
            parts.append(block.text)
        elif block.name in _SHOWN:
            parts.append(f"[{block.name}]")
    return "\n".join(parts).strip()


def block_messages(chat: Iterable[Message]) -> list[dict[str, Any]]:
    """Convert a chat from OpenAI's format to Strands', without its system prompt."""
    converted: list[dict[str, Any]] = []
    for message in chat:
        content = _blocks(message)
        if message["role"] == "system" or not content:
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        # Strands wants the results of parallel calls, and a user message after them, in
        # one message.
        if converted and converted[-1]["role"] == role:
            converted[-1]["content"].extend(content)
        else:
            converted.append({"role": role, "content": content})
    return converted


def _blocks(message: Message) -> list[dict[str, Any]]:
    """Return the content of a message as Strands' blocks."""
    content: list[dict[str, Any]] = []
    if message["content"]:
        content.append({"text": message["content"]})
    if message["role"] == "tool":
        result = {
            "toolUseId": message["tool_call_id"],
            "status": "success",
            "content": content or [{"text": ""}],
        }
        content = [{"toolResult": result}]
    for call in message.get("tool_calls") or ():
        content.append({"toolUse": _tool_use(call)})
    return content


def _tool_use(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        # The model wrote no JSON; a provider would reject it in a chat.
        arguments = {}
    return {"toolUseId": call["id"], "name": function["name"], "input": arguments}
