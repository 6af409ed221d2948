"""The base class of readers of formats whose records are read one after another, and the texts and facts in records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar

from goalrunner.core.messages import at, clean
from goalrunner.core.observation import Trail
from goalrunner.transcripts.source import Deliverable, Source
from goalrunner.transcripts.trail_builder import TrailBuilder, as_json

_SAMPLED = 64
_NO_TEXT = ("image", "image_url", "input_image", "audio", "video", "document", "tool_reference")


class RowReader:
    """Reads one transcript. A subclass recognises the rows of its format and adds each to `trail`."""

    DESCRIPTION: ClassVar[str]
    HAS_PARTS: ClassVar[bool] = False
    """Whether a file may have several conversations, one of which is selected by FILE#NAME."""
    reporter: ClassVar[str] = "the agent"
    fault: ClassVar[str]
    """The rest of the message "not ..." for a row that cannot be read."""
    keys: ClassVar[frozenset[str]] = frozenset({""})
    """Members of the outer object whose elements are rows; "" stands for the lines or elements of the file."""

    def __init__(self) -> None:
        self.trail = TrailBuilder(self.reporter)

    def matches(self, source: Source) -> bool:
        """Return whether one of the first rows is one that only this format has."""
        rows = (record.value for record in source.sample if record.element and record.key in self.keys)
        return any(isinstance(row, dict) and self.is_typical(row) for row in islice(rows, _SAMPLED))

    def is_typical(self, row: dict[str, Any]) -> bool:
        """Return whether only this format has such a row."""
        return self.is_valid(row)

    def is_valid(self, row: Any) -> bool:
        """Return whether a row can be read."""
        raise NotImplementedError

    def read(self, source: Source, deliverable: Deliverable) -> Trail:
        """Return the trail. Raise UsageError with the place if a row cannot be read."""
        for row in self.rows(source):
            if not self.is_valid(row):
                raise source.here(f"not {self.fault}")
            self.add(row)
        self.end()
        return self.trail.finish(deliverable)

    def rows(self, source: Source) -> Iterator[Any]:
        """Yield the rows of the transcript."""
        return (record.value for record in source.records() if record.element and record.key in self.keys)

    def add(self, row: Any) -> None:
        """Add a valid row to the trail."""
        raise NotImplementedError

    def end(self) -> None:
        """Add what is left after the last row."""


def parsed(arguments: Any) -> Any:
    """Return the arguments of a call, which may be a JSON text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments


def as_text(value: Any) -> str:
    """Return a string as it is, the text of content blocks, other values as JSON, and an empty string for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list) and all(isinstance(block, str | dict) for block in value):
        return "\n".join(filter(None, map(_block, value)))
    return as_json(value)


def _block(block: Any) -> str:
    """Return the text of a content block, or only the type of an image and the like."""
    if isinstance(block, str):
        return clean(block)
    for found in (block.get("text"), at(block, "content", "text")):
        if isinstance(found, str):
            return clean(found)
    return f"({block['type']})" if block.get("type") in _NO_TEXT else as_json(block)


def number(value: Any) -> int | None:
    """Return an integer; None for anything else."""
    return value if type(value) is int and abs(value) < 2**63 else None


def exit_fact(*codes: Any) -> tuple[str, ...]:
    """Return the fact of the first exit code that is an integer; empty if there is none."""
    return next(((f"exit {code}",) for code in map(number, codes) if code is not None), ())
