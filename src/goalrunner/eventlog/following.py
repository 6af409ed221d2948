"""Reading a log while it is being written. Owns waiting for the next whole line; what a line is, is the reader's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from goalrunner.eventlog.reading import read_lines
from goalrunner.events import Record


def follow_records(path: Path, wait: Callable[[], bool]) -> Iterator[Record]:
    """The records of a log, those that are still to come too, in their order. Raises RecordError for damage.

    At the end of the file `wait()` is called: it takes its time, and says whether to look again.
    """
    for record, _ in read_lines(path, wait):
        yield record
