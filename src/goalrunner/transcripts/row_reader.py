"""The base class of readers of formats whose records are read one after another."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from goalrunner.core.observation import Trail
from goalrunner.transcripts.source import Deliverable, Source
from goalrunner.transcripts.trail_builder import TrailBuilder


class RowReader:
    """Reads one transcript. A subclass recognises the rows of its format and adds each to `trail`."""

    DESCRIPTION: ClassVar[str]
    HAS_PARTS: ClassVar[bool] = False
    """Whether a file may have several conversations, of which one is named after the file: FILE#NAME."""
    reporter: ClassVar[str] = "the agent"
    fault: ClassVar[str]
    """Why a row cannot be read, after "not "."""
    keys: ClassVar[frozenset[str]] = frozenset({""})
    """Members of the outer object whose elements are rows; "": the lines or elements of the file are."""

    def __init__(self) -> None:
        self.trail = TrailBuilder(self.reporter)

    def matches(self, source: Source) -> bool:
        """Return whether one of the first rows is one that only this format has."""
        return any(self.is_typical(row) for row in source.rows)

    def is_typical(self, row: dict[str, Any]) -> bool:
        """Return whether only this format has such a row."""
        return self.is_valid(row)

    def is_valid(self, row: Any) -> bool:
        """Return whether a row can be read."""
        raise NotImplementedError

    def read(self, source: Source, deliverable: Deliverable) -> Trail:
        """Return the trail. Raise UsageError with file and line if a row cannot be read."""
        for row in self.rows(source):
            if not self.is_valid(row):
                raise source.here(f"not {self.fault}")
            self.add(row)
        return self.trail.finish(deliverable)

    def rows(self, source: Source) -> Iterator[Any]:
        """Yield the rows of the transcript."""
        return (record.value for record in source.records() if record.element and record.key in self.keys)

    def add(self, row: Any) -> None:
        """Add a valid row to the trail."""
        raise NotImplementedError


def parsed(arguments: Any) -> Any:
    """Return the arguments of a call, which may be a JSON text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return value if isinstance(value, dict) else arguments
