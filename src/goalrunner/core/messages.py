"""Chat messages: their form, the texts, calls and results in them, and access to JSON
of unknown structure.
"""

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
    image image_url input_image input_audio audio video file document input_file thinking redacted_thinking refusal
    reasoning reasoningContent cachePoint guardContent citationsContent container_upload
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
_SURROGATE = re.compile("[\ud800-\udfff]")


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


@dataclass(frozen=True)
class Block:
    """One block of a message's content: text, a tool call, a tool's result, another
    known kind, or an unknown one.
    """

    kind: Literal["text", "call", "result", "other", "unknown"]
    name: str = ""
    """The tool of a call; the type of a block of another kind, and of a result of a
    tool that ran at the provider."""
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
    """Return the kind of the first block that cannot be read; empty if there is
    none."""
    return next(
        (
            block.name or "without a type"
            for block in blocks_of(content)
            if block.kind == "unknown"
        ),
        "",
    )


DEEPEST = 100
"""Maximum nesting of objects and lists in a message; deeper ones could exceed Python's
recursion limit."""


def _is_deeper(value: object, levels: int) -> bool:
    inner = (
        value.values()
        if isinstance(value, Mapping)
        else value
        if isinstance(value, list | tuple)
        else ()
    )
    return bool(inner) and (
        levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)
    )


KNOWN_BLOCKS = "known kinds: text, tool_use, tool_result, toolUse, toolResult"
"""The hint of an error about an unknown block."""


_SHAPE = (
    "pass the whole chat in OpenAI's shape: [{'role': 'assistant', 'content': '...'}, "
    "...]"
)


def refuse_no_chat(messages: object) -> None:
    """Raise UsageError if this is not a list of chat messages; the list may be
    empty."""
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        raise UsageError(
            f"messages must be a list of chat messages, not {kind_of(messages)}", _SHAPE
        )
    for number, message in enumerate(messages, 1):
        if not isinstance(message, Mapping):
            raise UsageError(
                f"message {number} is {kind_of(message)}, not a chat message", _SHAPE
            )
        if _is_deeper(message, DEEPEST):
            raise UsageError(
                f"message {number} is nested more than {DEEPEST} levels deep", _SHAPE
            )
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or role not in ROLES:
            raise UsageError(
                f"message {number} has the role {role!r:.40}; known: "
                f"{', '.join(sorted(ROLES))}",
                _SHAPE,
            )
        if not isinstance(content, str | list | tuple | Mapping | None):
            wrong = (
                f"the content of message {number} is {kind_of(content)}, not text or "
                "a list of blocks"
            )
            raise UsageError(wrong, _SHAPE)
        if kind := unknown_block(content):
            raise UsageError(
                f"message {number} has a block of the unknown kind {kind!r}",
                KNOWN_BLOCKS,
            )


def _block(item: object) -> Block:
    if isinstance(item, str):
        return Block("text", text=item)
    if not isinstance(item, Mapping):
        return Block("unknown", type(item).__name__)
    call, result = item.get("toolUse"), item.get("toolResult")
    if isinstance(call, Mapping):
        return Block(
            "call",
            str(call.get("name", "")),
            _id(call.get("toolUseId")),
            given=call.get("input"),
        )
    if isinstance(result, Mapping):
        output, failed = (
            block_text(result.get("content")),
            result.get("status") == "error",
        )
        return Block(
            "result", id=_id(result.get("toolUseId")), text=output, failed=failed
        )
    match item.get("type"):
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            return Block(
                "call",
                str(item.get("name", "")),
                _id(item.get("id")),
                given=item.get("input"),
            )
        case str() as kind if kind.endswith("tool_result"):
            output, failed = block_text(item.get("content")), bool(item.get("is_error"))
            return Block(
                "result",
                kind.removesuffix("tool_result"),
                _id(item.get("tool_use_id")),
                output,
                failed=failed,
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
            known = next((key for key in item if key in _OTHER_BLOCKS), None)
            return (
                Block("other", known)
                if known
                else Block("unknown", ", ".join(map(str, item))[:80])
            )


def _id(value: object) -> str:
    return "" if value is None else str(value)


def calls_of(message: Mapping[str, Any]) -> list[Block]:
    """Return the tool calls of an assistant's message in all known shapes."""
    found = []
    calls = message.get("tool_calls")
    for call in [
        *(calls if isinstance(calls, list | tuple) else ()),
        message.get("function_call"),
    ]:
        if isinstance(call, Mapping):
            function = (
                call["function"] if isinstance(call.get("function"), Mapping) else call
            )
            name, given = function.get("name"), parsed(function.get("arguments"))
            found.append(
                Block(
                    "call",
                    name if isinstance(name, str) else "",
                    _id(call.get("id")),
                    given=given,
                )
            )
    return [
        *found,
        *(block for block in blocks_of(message.get("content")) if block.kind == "call"),
    ]


def parsed(arguments: Any) -> Any:
    """Return the arguments of a call, which may be the JSON text of an object."""
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def block_text(value: Any) -> str:
    """Return a string as it is, the text of content blocks, other values as JSON, and
    an empty string for None.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple) and all(
        isinstance(block, str | dict) for block in value
    ):
        return "\n".join(filter(None, map(_content, value)))
    return json_of(value)


def _content(block: Any) -> str:
    """Return the text of a content block, or only the type of an image and the like."""
    if isinstance(block, str):
        return clean(block)
    for found in (block.get("text"), at(block, "content", "text")):
        if isinstance(found, str):
            return clean(found)
    return f"({block['type']})" if block.get("type") in _NO_TEXT else json_of(block)


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
    return (
        value
        if value.isascii() or _SURROGATE.search(value) is None
        else _SURROGATE.sub("?", value)
    )


def integer_of(value: Any) -> int | None:
    """Return an integer; None for anything else."""
    return value if type(value) is int and abs(value) < 2**63 else None


def exit_fact(*codes: Any) -> tuple[str, ...]:
    """Return the fact of the first exit code that is an integer; empty if there is
    none.
    """
    return next(
        ((f"exit {code}",) for code in map(integer_of, codes) if code is not None), ()
    )


_EXIT_CODE = re.compile(r"Exit code:? (-?\d{1,10})\b")
_REFUSED = re.compile(
    r"The user doesn't want to |Permission to use \S+ (?:with command .*)?has been denied|<user_denied"
)
_INTERRUPTED = re.compile(r"\[Request interrupted by user|<error>Command was aborted")


def facts_of(output: str, *, failed: bool) -> tuple[str, ...]:
    """Return the facts of a result: none if it succeeded, else its exit code, "denied",
    "interrupted" or "error".
    """
    if not failed:
        return ()
    if found := _EXIT_CODE.match(output):
        return (f"exit {int(found[1])}",)
    if _REFUSED.match(output):
        return ("denied",)
    return ("interrupted",) if _INTERRUPTED.match(output) else ("error",)
