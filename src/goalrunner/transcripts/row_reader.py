"""The base class of readers of transcripts that consist of rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar

from goalrunner.core.observation import Trail
from goalrunner.core.trail_builder import Deliverable, TrailBuilder
from goalrunner.transcripts.source import TranscriptSource
from goalrunner.transcripts.text_store import TextStore

__all__ = ["RowReader"]

# The first records of other formats are enough to tell them apart. A sample of a
# document contains all its records, and a reader must not search a long one.
_SAMPLED = 64


class RowReader:
    """Reads one transcript.

    A subclass recognises the rows of its format and adds each to `trail`.
    """

    DESCRIPTION: str
    HAS_PARTS: ClassVar[bool] = False
    """Whether a file may have several conversations; FILE#NAME selects one."""
    reporter: str = "the agent"
    """The program that ran the tools: observations are "reported by" it."""
    fault: ClassVar[str] = "a record of this format"
    """What an unreadable row should have been: the message is "not" and these words."""
    keys: ClassVar[frozenset[str]] = frozenset({""})
    """Members of the outer object whose elements are rows.

    The empty string stands for the lines or elements of the file itself.
    """

    def __init__(self) -> None:
        texts = TextStore()
        self.trail = TrailBuilder(self.reporter, texts.add, texts.read)

    def matches(self, source: TranscriptSource) -> bool:
        """Return whether one of the first rows is one that only this format has."""
        rows = (record.value for record in source.sample if record.key in self.keys)
        for row in islice(rows, _SAMPLED):
            if isinstance(row, dict) and self.is_typical(row):
                return True
        return False

    def is_typical(self, row: dict[str, Any]) -> bool:
        """Return whether only this format has such a row."""
        return self.is_valid(row)

    def is_valid(self, row: Any) -> bool:
        """Return whether a row can be read."""
        raise NotImplementedError

    def read(self, source: TranscriptSource, deliverable: Deliverable) -> Trail:
        """Return the trail. Raise UsageError with the place of an invalid row."""
        for row in self.rows(source):
            # A row that is skipped could hide a result or a change.
            if not self.is_valid(row):
                raise source.error_here(f"not {self.fault}")
            self.add(row)
        self.end()
        return self.trail.finish(deliverable)

    def rows(self, source: TranscriptSource) -> Iterator[Any]:
        """Yield the rows of the transcript."""
        return (record.value for record in source.records() if record.key in self.keys)

    def add(self, row: Any) -> None:
        """Add a valid row to the trail."""
        raise NotImplementedError

    def end(self) -> None:
        """Add to the trail what the reader collected from earlier rows."""
