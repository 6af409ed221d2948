"""Chat messages: their form, their conversion to observations and claims, and access to JSON of unknown structure.

Tool messages are observations, assistant messages are claims. User and system messages are neither; a judge does not see
them. If the response is the deliverable, the last assistant message is an observation as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from goalrunner.core.errors import UsageError, kind_of
from goalrunner.core.observation import RESPONSE, Claim, Observation, Trail, source_of, trail_with

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
"""The roles of OpenAI's chat messages, the old `function` included."""

_OTHER_BLOCKS = frozenset(
    """
    image image_url input_image input_audio audio video file document input_file thinking redacted_thinking refusal
    reasoning reasoningContent cachePoint guardContent citationsContent container_upload
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Blocks that contain neither text nor tool results."""

_NO_TEXT = ("image", "image_url", "input_image", "audio", "video", "document", "tool_reference")
_SURROGATE = re.compile("[\ud800-\udfff]")
_COMMAND_KEYS = ("command", "cmd", "script", "code")
_FILE_KEYS = frozenset({"path", "content", "old", "new", "old_text", "new_text", "offset", "limit"})


@dataclass(frozen=True)
class _Call:
    """A tool call: tool, command, and the string arguments."""

    tool: str = "tool"
    command: str = ""
    given: frozenset[str] = frozenset()


_Entry = tuple[int, str, _Call | None]
"""The round and the text of a message, and the call whose result it is; None for text of the agent."""


def trail_of(
    messages: Sequence[Mapping[str, Any]], *, deliverable: Literal["workspace", "response"] = "workspace"
) -> Trail:
    """Return the trail of a chat, oldest first: observations numbered from o1, rounds counted by user messages.

    `messages` are OpenAI's: `content` a string, None or a list of blocks (`{"type": "text", "text": ...}` or
    `{"text": ...}`). The blocks for tool calls and their results of Anthropic (`tool_use`, `tool_result`) and of Strands
    and Bedrock (`toolUse`, `toolResult`) are understood as well.
    """
    entries = list(_entries(messages))
    said = [number for number, (_, _, call) in enumerate(entries) if call is None]
    response = said[-1] if said and deliverable == "response" else None
    found: list[tuple[Observation | Claim, str]] = []
    identifiers = (f"o{number}" for number in count(1))
    for number, (round_number, text, call) in enumerate(entries):
        if call is None and number != response:
            found.append((Claim(round=round_number), text))
            continue
        facts = () if call else (f"round {round_number}",)
        source, command = (call.tool, call.command) if call else (RESPONSE, "")
        fields = {"source": source, "facts": facts, "command": command, "round": round_number}
        found.append((Observation(id=next(identifiers), **fields), text))
    return trail_with(found)


def text_of(content: object) -> str:
    """Return the text of a message's content; blocks that are not text are left out."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        text = content.get("text")
        return text if isinstance(text, str) else ""
    if isinstance(content, Sequence):
        return "\n".join(text for text in (text_of(block) for block in content) if text)
    return ""


def _entries(messages: Sequence[Mapping[str, Any]]) -> Iterator[_Entry]:
    """Yield tool results and texts in order; each user message starts a round."""
    calls: dict[str, _Call] = {}
    number = 0
    for message in messages:
        text, role = text_of(message.get("content")), message.get("role")
        if role == "user":
            results = [
                block for block in blocks_of(message.get("content")) if block.kind == "result" and not block.name
            ]
            # In some formats tool results are user messages; only text starts a round.
            number += 1 if text.strip() or not results else 0
            for block in results:
                yield _result(number, block.text, calls.pop(block.id, _Call()))
        elif role == "assistant":
            calls.update((block.id, _call(block)) for block in calls_of(message))
            if text.strip():
                yield number, text, None
        elif role in ("tool", "function"):
            unknown = _call(Block("call", str(message.get("name") or "")))
            yield _result(number, text, calls.pop(_id(message.get("tool_call_id")), unknown))


@dataclass(frozen=True)
class Block:
    """One block of a message's content: text, a tool call, a tool's result, another known kind, or an unknown one."""

    kind: Literal["text", "call", "result", "other", "unknown"]
    name: str = ""
    """The tool of a call; the type of a block of another kind, and of a result of a tool that ran at the provider."""
    id: str = ""
    text: str = ""
    given: object = None
    """The arguments of a call."""
    failed: bool = False


def blocks_of(content: object) -> tuple[Block, ...]:
    """Return the blocks of a content that is a list of blocks; none for plain text."""
    if not isinstance(content, Sequence) or isinstance(content, str | bytes):
        return ()
    return tuple(_block(item) for item in content)


def unknown_block(content: object) -> str:
    """Return the kind of the first block that cannot be read; empty if there is none."""
    return next((block.name or "without a type" for block in blocks_of(content) if block.kind == "unknown"), "")


DEEPEST = 100
"""Maximum nesting of objects and lists in a message; deeper ones could exceed Python's recursion limit."""


def _is_deeper(value: object, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return bool(inner) and (levels == 0 or any(_is_deeper(item, levels - 1) for item in inner))


KNOWN_BLOCKS = "known kinds: text, tool_use, tool_result, toolUse, toolResult"
"""The hint of an error about an unknown block."""


_SHAPE = "pass the whole chat in OpenAI's shape: [{'role': 'assistant', 'content': '...'}, ...]"


def refuse_no_chat(messages: object) -> None:
    """Raise UsageError if this is not a list of chat messages; the list may be empty."""
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        raise UsageError(f"messages must be a list of chat messages, not {kind_of(messages)}", _SHAPE)
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping):
            raise UsageError(f"message {number} is {kind_of(message)}, not a chat message", _SHAPE)
        if _is_deeper(message, DEEPEST):
            raise UsageError(f"message {number} is nested more than {DEEPEST} levels deep", _SHAPE)
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or role not in ROLES:
            raise UsageError(f"message {number} has the role {role!r:.40}; known: {', '.join(sorted(ROLES))}", _SHAPE)
        if not isinstance(content, str | list | tuple | Mapping | None):
            wrong = f"the content of message {number} is {kind_of(content)}, not text or a list of blocks"
            raise UsageError(wrong, _SHAPE)
        if kind := unknown_block(content):
            raise UsageError(f"message {number} has a block of the unknown kind {kind!r}", KNOWN_BLOCKS)


def _block(item: object) -> Block:
    if isinstance(item, str):
        return Block("text", text=item)
    if not isinstance(item, Mapping):
        return Block("unknown", type(item).__name__)
    call, result = item.get("toolUse"), item.get("toolResult")
    if isinstance(call, Mapping):
        return Block("call", str(call.get("name", "")), _id(call.get("toolUseId")), given=call.get("input"))
    if isinstance(result, Mapping):
        output, failed = as_text(result.get("content")), result.get("status") == "error"
        return Block("result", id=_id(result.get("toolUseId")), text=output, failed=failed)
    match item.get("type"):
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            return Block("call", str(item.get("name", "")), _id(item.get("id")), given=item.get("input"))
        case str() as kind if kind.endswith("tool_result"):
            output, failed = as_text(item.get("content")), bool(item.get("is_error"))
            return Block(
                "result", kind.removesuffix("tool_result"), _id(item.get("tool_use_id")), output, failed=failed
            )
        case str() as kind if kind in _OTHER_BLOCKS:
            return Block("other", kind)
        case None | "text" | "input_text" | "output_text" if isinstance(item.get("text"), str):
            return Block("text", text=str(item["text"]))
        case str() as kind:
            return Block("unknown", kind)
        case _:
            known = next((key for key in item if key in _OTHER_BLOCKS), None)
            return Block("other", known) if known else Block("unknown", ", ".join(map(str, item))[:80])


def _id(value: object) -> str:
    return "" if value is None else str(value)


def _result(round_number: int, text: str, call: _Call) -> _Entry:
    """Return a tool's result. A result that only repeats an argument (`finish`, `message`) is text of the agent."""
    return round_number, text, None if text.strip() in call.given else call


def calls_of(message: Mapping[str, Any]) -> list[Block]:
    """Return the tool calls of an assistant's message in all known shapes."""
    found = []
    calls = message.get("tool_calls")
    for call in [*(calls if isinstance(calls, list | tuple) else ()), message.get("function_call")]:
        if isinstance(call, Mapping):
            function = call["function"] if isinstance(call.get("function"), Mapping) else call
            name, given = function.get("name"), parsed(function.get("arguments"))
            found.append(Block("call", name if isinstance(name, str) else "", _id(call.get("id")), given=given))
    return [*found, *(block for block in blocks_of(message.get("content")) if block.kind == "call")]


def parsed(arguments: Any) -> Any:
    """Return the arguments of a call, which may be the JSON text of an object."""
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def _call(block: Block) -> _Call:
    values = block.given.values() if isinstance(block.given, Mapping) else ()
    given = frozenset(value.strip() for value in values if isinstance(value, str) and value.strip())
    return _Call(source_of(block.name), _command(block.given), given)


def _command(given: object) -> str:
    """Return the command line of a shell-like call, the path of a file tool, else the arguments."""
    if isinstance(given, Mapping):
        path = given.get("path")
        if isinstance(path, str) and set(given) <= _FILE_KEYS:
            return path
        if path is None and (found := [given[key] for key in _COMMAND_KEYS if isinstance(given.get(key), str)]):
            return str(found[0])
    return "" if given is None else given if isinstance(given, str) else as_json(given)


def as_text(value: Any) -> str:
    """Return a string as it is, the text of content blocks, other values as JSON, and an empty string for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple) and all(isinstance(block, str | dict) for block in value):
        return "\n".join(filter(None, map(_content, value)))
    return as_json(value)


def _content(block: Any) -> str:
    """Return the text of a content block, or only the type of an image and the like."""
    if isinstance(block, str):
        return clean(block)
    for found in (block.get("text"), at(block, "content", "text")):
        if isinstance(found, str):
            return clean(found)
    return f"({block['type']})" if block.get("type") in _NO_TEXT else as_json(block)


def as_json(value: Any) -> str:
    """Return the value as JSON."""
    return clean(json.dumps(value, ensure_ascii=False, default=str))


def at(value: Any, *path: str) -> Any:
    """Return what is at a path of keys, or None."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def items(value: Any) -> list[Any]:
    """Return a list as it is, and an empty list for anything else."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a string that can be encoded; empty for anything else."""
    return clean(value) if isinstance(value, str) else ""


def clean(value: str) -> str:
    """Replace lone surrogates, which cannot be encoded."""
    return value if value.isascii() or _SURROGATE.search(value) is None else _SURROGATE.sub("?", value)
