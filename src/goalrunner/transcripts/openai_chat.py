"""OpenAI chat messages: a JSON array, an object with "messages", or JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from goalrunner.core.errors import UsageError
from goalrunner.core.messages import KNOWN_BLOCKS, ROLES, is_too_deep, trail_of, unknown_block
from goalrunner.core.observation import Trail
from goalrunner.transcripts.source import Deliverable, Source


def matches(source: Source) -> bool:
    """Return whether the text begins like JSON. As the last format it reports all errors in JSON files."""
    return source.text.lstrip()[:1] in ("[", "{")


def read(source: Source, deliverable: Deliverable) -> Trail:
    """Return the trail of the messages. Raise UsageError with the line or number of an invalid message."""
    messages = [_checked(message, place, source, line) for message, place, line in _found(source)]
    if not messages:
        raise source.error("the transcript contains no messages")
    return trail_of(messages, deliverable=deliverable)


def _found(source: Source) -> list[tuple[object, str, int]]:
    """Return the items of the file, each with its name for errors and its line, or 0."""
    try:
        whole = json.loads(source.text)
    except (ValueError, RecursionError) as error:
        if source.text.lstrip().startswith("[") or isinstance(error, RecursionError):
            raise _invalid(error, source) from None
        return _lines(source)
    if isinstance(whole, dict) and isinstance(whole.get("messages"), list):
        whole = whole["messages"]
    if isinstance(whole, list):
        return [(message, f"message {number}", 0) for number, message in enumerate(whole, 1)]
    return [(whole, "the line", 1)]


def _lines(source: Source) -> list[tuple[object, str, int]]:
    found: list[tuple[object, str, int]] = []
    # Not splitlines(), which also splits at characters that may stand inside a JSON string.
    for number, line in enumerate(source.text.split("\n"), 1):
        if line.strip():
            try:
                found.append((json.loads(line), "the line", number))
            except (ValueError, RecursionError) as error:
                raise _invalid(error, source, number) from None
    return found


def _invalid(error: Exception, source: Source, line: int = 0) -> UsageError:
    if isinstance(error, RecursionError):
        return source.error("the JSON is nested too deeply", line)
    if isinstance(error, json.JSONDecodeError):
        return source.error(f"not valid JSON: {error.msg} (column {error.colno})", line or error.lineno)
    return source.error(f"not valid JSON: {error}", line)


def _checked(message: object, place: str, source: Source, line: int) -> Mapping[str, Any]:
    if not isinstance(message, dict):
        raise source.error(f"{place} is not a chat message: it is not a JSON object", line)
    if isinstance(message.get("messages"), list):
        raise source.error(f"{place} is another conversation; a file contains one conversation", line)
    if is_too_deep(message):
        raise source.error("the JSON is nested too deeply", line)
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        fault = "it has no role" if role is None else f"its role is {json.dumps(role)[:40]}"
        raise source.error(f"{place} is not a chat message: {fault}", line)
    if not isinstance(message.get("content"), str | list | None):
        raise source.error(f"{place} is not a chat message: its content is neither text nor a list of blocks", line)
    if kind := unknown_block(message.get("content")):
        raise source.error(f"{place} has a block of the unknown kind {kind!r}; {KNOWN_BLOCKS}", line)
    return message
