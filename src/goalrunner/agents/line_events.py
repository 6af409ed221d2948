"""Events from the fields of a JSON object.

The arguments of the functions are paths, which are keys joined by dots; of several
paths, the first with a value counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from goalrunner.agents.json_lines import exit_code, first, number
from goalrunner.agents.parser import (
    LONGEST_NOISE,
    CallFinished,
    CallStarted,
    Failed,
    Obstacle,
    SessionStarted,
    StreamEvent,
    Text,
    UsageReported,
)
from goalrunner.agents.text_diff import unified
from goalrunner.core.errors import Outage
from goalrunner.core.messages import at, block_text, items, json_of, text

# Keys of the text that an edit replaces, and of its replacement.
_OLD_TEXT = ("old_string", "oldString", "old_str")
_NEW_TEXT = ("new_string", "newString", "new_str")

_FAILURES = ("true", "error", "failed", "failure", "cancelled", "canceled")


def is_failure(value: Any) -> bool:
    """Return whether a flag or a status means a failure."""
    if isinstance(value, str):
        # A status is a text, a flag a bool.
        return value.lower() in _FAILURES
    return bool(value)


def session(
    line: Any, path: str, model: str = "", version: str = ""
) -> Iterator[StreamEvent]:
    """Yield the session id at a path, if there is one, with model and version."""
    session_id = block_text(first(line, path))
    if session_id:
        yield SessionStarted(
            session_id, text(first(line, model)), text(first(line, version))
        )


def message(line: Any, path: str) -> Iterator[StreamEvent]:
    """Yield the message at a path, if it is not empty."""
    content = block_text(first(line, path))
    if content:
        yield Text(content)


def call(line: Any, call_id: str, tool: str, *command: str) -> CallStarted:
    """Return the start of the call whose fields are at these paths.

    The last path of `command` is that of all arguments.
    """
    return CallStarted(
        block_text(first(line, call_id)),
        block_text(first(line, tool)),
        block_text(first(line, *command)),
        edited_lines(first(line, *command[-1:])),
        arguments=first(line, *command[-1:]),
    )


def edited_lines(arguments: Any) -> str:
    """Return how many lines the arguments of an edit add and remove: "+4 −1".

    Empty for another call.
    """
    # Some tools take several edits of one file in a call.
    edits = []
    for edit in items(at(arguments, "edits")) or [arguments]:
        old, new = first(edit, *_OLD_TEXT), first(edit, *_NEW_TEXT)
        if isinstance(old, str) and isinstance(new, str):
            edits.append((old, new))
    return changed_lines(edits)


def changed_lines(edits: Sequence[tuple[str, str]]) -> str:
    """Return how many lines these edits add and remove; empty without edits.

    An edit is its old and its new text.
    """
    if not edits:
        return ""
    # Joined, because the summary of a diff counts the lines of two whole texts.
    old = new = ""
    for old_part, new_part in edits:
        old += f"{old_part}\n" if old_part else ""
        new += f"{new_part}\n" if new_part else ""
    return unified(old, new, "").summary


def result(
    line: Any,
    call_id: str,
    *output: str,
    tool: tuple[str, ...] = (),
    command: tuple[str, ...] = (),
    code: str = "",
    failed: str = "",
) -> CallFinished:
    """Return the end of the call whose fields are at these paths."""
    return CallFinished(
        id=block_text(first(line, call_id)),
        output=block_text(first(line, *output)),
        exit_code=exit_code(first(line, code)),
        failed=is_failure(first(line, failed)),
        tool=block_text(first(line, *tool)),
        command=block_text(first(line, *command)),
        change=edited_lines(first(line, *command[-1:])),
        arguments=first(line, *command[-1:]),
    )


def tokens(
    line: Any,
    input_path: str,
    output_path: str,
    *cached: str,
    cumulative: bool = False,
    cost: str = "",
) -> Iterator[UsageReported]:
    """Yield the tokens at these paths, if there are any.

    `cached` are tokens that are not part of the input.
    """
    paths = [input_path, output_path, *cached]
    if cost:
        paths.append(cost)
    if first(line, *paths) is None:
        return
    # The counted input of some agents does not include what was cached.
    input_tokens = 0
    for path in (input_path, *cached):
        input_tokens += int(number(first(line, path)) or 0)
    yield UsageReported(
        input=input_tokens,
        output=int(number(first(line, output_path)) or 0),
        cost=number(first(line, cost)) if cost else None,
        cumulative=cumulative,
    )


def failure(
    line: Any,
    *paths: str,
    ends: bool = False,
    outage: Outage | None = None,
    obstacle: Obstacle | None = None,
    ending: str = "",
) -> Failed:
    """Return the failure with the first message at these paths.

    Without one, the whole line is the message.
    """
    message = block_text(first(line, *paths)) or json_of(line)[:LONGEST_NOISE]
    return Failed(message, ends, outage, obstacle, ending)
