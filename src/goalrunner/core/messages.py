"""Chat messages of any provider: their texts, their tool calls and the results."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from goalrunner.core.errors import UsageError, kind_of

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
"""The roles of OpenAI's chat messages, the old `function` included."""

TIMESTAMP = "timestamp"
"""The key of a message for the time at which it was made. Its tools started later."""

_OTHER_BLOCKS = frozenset(
    """
    image image_url input_image input_audio audio video file document input_file
    thinking redacted_thinking refusal reasoning reasoningContent cachePoint
    guardContent citationsContent container_upload
    """.split()
)
"""Blocks that contain neither text nor tool results."""

_NO_TEXT = (
    "image",
    "image_url",
    "input_image",
    "audio",
    "video",
    "document",
    "tool_reference",
)
"""Types of blocks of a result that are shown by their type alone."""
_SURROGATE = re.compile("[\ud800-\udfff]")


def text_of(content: object) -> str:
    """Return the text of a message's content; blocks that are no text are left out."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        text = content.get("text")
        return text if isinstance(text, str) else ""
    if isinstance(content, Sequence):
        return "\n".join(filter(None, map(text_of, content)))
    return ""


@dataclass(frozen=True)
class Block:
    """One block of a message's content.

    It is a text, a tool call, a tool's result, of another known kind, or unknown.
    """

    kind: Literal["text", "call", "result", "other", "unknown"]
    name: str = ""
    """The name of a called tool, or the type of an "other" or "unknown" block.

    Of a result, the kind of tool if it ran at the provider, else empty. Empty for text.
    """
    id: str = ""
    text: str = ""
    arguments: object = None
    """Those of a call."""
    failed: bool = False


def blocks_of(content: object) -> tuple[Block, ...]:
    """Return the blocks of a content that is a list of blocks; none for plain text."""
    if not isinstance(content, Sequence) or isinstance(content, str | bytes):
        return ()
    return tuple(map(_block, content))


def unknown_block(content: object) -> str:
    """Return the kind of the first block that cannot be read; else empty."""
    for block in blocks_of(content):
        if block.kind == "unknown":
            return block.name or "without a type"
    return ""


def _block(item: object) -> Block:
    if isinstance(item, str):
        return Block("text", text=item)
    if not isinstance(item, Mapping):
        return Block("unknown", type(item).__name__)
    # Bedrock and Strands have no type; the key is the kind.
    call, result = item.get("toolUse"), item.get("toolResult")
    if isinstance(call, Mapping):
        name, identifier = str(call.get("name", "")), _id(call.get("toolUseId"))
        return Block("call", name, identifier, arguments=call.get("input"))
    if isinstance(result, Mapping):
        return Block(
            "result",
            id=_id(result.get("toolUseId")),
            text=block_text(result.get("content")),
            failed=result.get("status") == "error",
        )
    return _typed_block(item)


def _typed_block(item: Mapping[str, Any]) -> Block:
    match item.get("type"):
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            name, identifier = str(item.get("name", "")), _id(item.get("id"))
            return Block("call", name, identifier, arguments=item.get("input"))
        case str() as kind if kind.endswith("tool_result"):
            return Block(
                "result",
                kind.removesuffix("tool_result"),
                _id(item.get("tool_use_id")),
                block_text(item.get("content")),
                failed=bool(item.get("is_error")),
            )
        case str() as kind if kind in _OTHER_BLOCKS:
            return Block("other", kind)
        case None | "text" | "input_text" | "output_text" if isinstance(
            item.get("text"), str
        ):
            return Block("text", text=str(item["text"]))
        case str() as kind:
            return Block("unknown", kind)
        case _:
            return _untyped_block(item)


def _untyped_block(item: Mapping[str, Any]) -> Block:
    for key in item:
        if key in _OTHER_BLOCKS:
            return Block("other", key)
    return Block("unknown", ", ".join(map(str, item))[:80])


def _id(value: object) -> str:
    return "" if value is None else str(value)


DEEPEST = 100
"""Maximum nesting of objects and lists in a message.

Deeper ones could exceed Python's recursion limit.
"""

KNOWN_BLOCKS = "known kinds: text, tool_use, tool_result, toolUse, toolResult"
"""The hint of an error about an unknown block."""

_SHAPE = (
    "pass the whole chat in OpenAI's shape: "
    "[{'role': 'assistant', 'content': '...'}, ...]"
)


def refuse_no_chat(messages: object) -> None:
    """Raise UsageError if this is not a list of chat messages; it may be empty."""
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        kind = kind_of(messages)
        raise UsageError(
            f"messages must be a list of chat messages, not {kind}", _SHAPE
        )
    for number, message in enumerate(messages, 1):
        _refuse_no_message(message, f"message {number}")


def _refuse_no_message(message: object, which: str) -> None:
    if not isinstance(message, Mapping):
        raise UsageError(f"{which} is {kind_of(message)}, not a chat message", _SHAPE)
    # Before anything walks through the message.
    if _is_deeper(message, DEEPEST):
        raise UsageError(f"{which} is nested more than {DEEPEST} levels deep", _SHAPE)
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or role not in ROLES:
        roles = ", ".join(sorted(ROLES))
        raise UsageError(f"{which} has the role {role!r:.40}; known: {roles}", _SHAPE)
    if not isinstance(content, str | list | tuple | Mapping | None):
        kind = kind_of(content)
        raise UsageError(
            f"the content of {which} is {kind}, not text or a list of blocks", _SHAPE
        )
    if kind := unknown_block(content):
        raise UsageError(
            f"{which} has a block of the unknown kind {kind!r}", KNOWN_BLOCKS
        )


def _is_deeper(value: object, levels: int) -> bool:
    inner: Sequence[object] = ()
    if isinstance(value, Mapping):
        inner = list(value.values())
    elif isinstance(value, list | tuple):
        inner = value
    if not inner:
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


def calls_of(message: Mapping[str, Any]) -> list[Block]:
    """Return the tool calls of an assistant's message in all known shapes."""
    listed = message.get("tool_calls")
    calls = [*listed] if isinstance(listed, list | tuple) else []
    # The old form, with a single call and without an id.
    calls.append(message.get("function_call"))
    blocks = [_call_block(call) for call in calls if isinstance(call, Mapping)]
    blocks += [
        item for item in blocks_of(message.get("content")) if item.kind == "call"
    ]
    return blocks


def _call_block(call: Mapping[str, Any]) -> Block:
    function = call.get("function")
    if not isinstance(function, Mapping):
        function = call
    name, arguments = function.get("name"), parsed(function.get("arguments"))
    name = name if isinstance(name, str) else ""
    return Block("call", name, _id(call.get("id")), arguments=arguments)


def parsed(arguments: Any) -> Any:
    """Return the arguments of a call, which may be the JSON text of an object."""
    if not isinstance(arguments, str):
        return arguments
    # A model may have written JSON that is not valid: the text is shown then.
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def block_text(value: Any) -> str:
    """Return the text of a result.

    That is a string as it is, the text of content blocks, other values as JSON, and an
    empty text for None.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    if not isinstance(value, list | tuple):
        return json_of(value)
    if not all(isinstance(block, str | dict) for block in value):
        return json_of(value)
    return "\n".join(filter(None, map(_content_text, value)))


def _content_text(block: Any) -> str:
    """Return the text of a content block, or only the type of an image and the like."""
    if isinstance(block, str):
        return clean(block)
    for value in (block.get("text"), at(block, "content", "text")):
        if isinstance(value, str):
            return clean(value)
    if block.get("type") in _NO_TEXT:
        return f"({block['type']})"
    return json_of(block)


# JSON of unknown structure: what is not as expected counts as missing.


def json_of(value: Any) -> str:
    """Return the value as JSON; empty if it is nested too deep."""
    try:
        return clean(json.dumps(value, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        return ""


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
    # Most texts are ASCII, which is much faster to find out.
    if value.isascii() or _SURROGATE.search(value) is None:
        return value
    return _SURROGATE.sub("?", value)


def integer_of(value: Any) -> int | None:
    """Return an integer of at most 64 bits; None for anything else."""
    return value if type(value) is int and abs(value) < 2**63 else None


def exit_fact(*codes: Any) -> tuple[str, ...]:
    """Return the fact of the first exit code that is an integer; empty if none is."""
    for code in map(integer_of, codes):
        if code is not None:
            return (f"exit {code}",)
    return ()


_EXIT_CODE = re.compile(r"Exit code:? (-?\d{1,10})\b")
_REFUSED = re.compile(
    r"The user doesn't want to "
    r"|Permission to use \S+ (?:with command .*)?has been denied|<user_denied"
)
_INTERRUPTED = re.compile(r"\[Request interrupted by user|<error>Command was aborted")


def facts_of(output: str, *, failed: bool) -> tuple[str, ...]:
    """Return the facts of a result.

    Empty if it succeeded; else one: its exit code, "denied", "interrupted" or "error".
    """
    if not failed:
        return ()
    if match := _EXIT_CODE.match(output):
        return (f"exit {int(match[1])}",)
    if _REFUSED.match(output):
        return ("denied",)
    return ("interrupted",) if _INTERRUPTED.match(output) else ("error",)
