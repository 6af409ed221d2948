"""OpenAI chat messages: a JSON array, an object with "messages", or JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from goalrunner.core.messages import KNOWN_BLOCKS, ROLES, trail_of, unknown_block
from goalrunner.core.observation import Trail
from goalrunner.transcripts.source import Source

NAME = 'OpenAI chat messages (a JSON array, {"messages": [...]}, or JSON Lines)'


def recognises(source: Source) -> bool:
    """Whether the text begins as JSON does; the last format, so whatever is JSON is its own to refuse."""
    return source.text.lstrip()[:1] in ("[", "{")


def read(source: Source, deliverable: Literal["workspace", "response"]) -> Trail:
    """The trail of the messages. Raises UsageError naming the line, or the message, that is none."""
    return trail_of(messages_of(source), deliverable=deliverable)


def messages_of(source: Source) -> list[Mapping[str, Any]]:
    """Every message of the file, each checked. Raises UsageError."""
    messages = [_checked(message, place, source, line) for message, place, line in _found(source)]
    if not messages:
        raise source.error("the transcript holds no messages")
    return messages


def _found(source: Source) -> list[tuple[object, str, int]]:
    """Each would-be message with what to call it, and its line where it has one of its own."""
    try:
        whole = json.loads(source.text)
    except RecursionError:
        raise source.error("the JSON is nested too deeply") from None
    except ValueError as error:
        if source.text.lstrip().startswith("["):
            raise _invalid(error, source) from None
        return _lines(source)
    if isinstance(whole, dict) and isinstance(whole.get("messages"), list):
        whole = whole["messages"]
    if isinstance(whole, list):
        return [(message, f"message {number}", 0) for number, message in enumerate(whole, 1)]
    return [(whole, "the line", 1)]


def _lines(source: Source) -> list[tuple[object, str, int]]:
    found: list[tuple[object, str, int]] = []
    # Not splitlines(): that also splits at characters which may stand inside a JSON string.
    for number, line in enumerate(source.text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            found.append((json.loads(line), "the line", number))
        except RecursionError:
            raise source.error("the JSON is nested too deeply", number) from None
        except ValueError as error:
            raise _invalid(error, source, number) from None
    return found


def _invalid(error: ValueError, source: Source, line: int = 0) -> Exception:
    if isinstance(error, json.JSONDecodeError):
        return source.error(f"not valid JSON: {error.msg} (column {error.colno})", line or error.lineno)
    return source.error(f"not valid JSON: {error}", line)


def _checked(message: object, place: str, source: Source, line: int) -> Mapping[str, Any]:
    if not isinstance(message, dict):
        raise source.error(f"{place} is no chat message: it is no JSON object", line)
    if isinstance(message.get("messages"), list):
        raise source.error(f"{place} holds a conversation of its own; one file is one conversation", line)
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        said = "it has no role" if role is None else f"its role is {json.dumps(role)[:40]}"
        raise source.error(f"{place} is no chat message: {said}", line)
    if not isinstance(message.get("content"), str | list | None):
        raise source.error(f"{place} is no chat message: its content is neither text nor a list of blocks", line)
    if kind := unknown_block(message.get("content")):
        raise source.error(f"{place} has a block of the unknown kind {kind!r}; {KNOWN_BLOCKS}", line)
    return message
