"""Files that children write to. Owns how one is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from goalrunner.errors import RecordError


@contextmanager
def opened_sink(path: Path) -> Iterator[int]:
    """The output file, new and empty. Appending, so that two writers of one file never overwrite each other."""
    try:
        sink = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}", "free some space, or set GOAL_HOME") from error
    try:
        yield sink
    finally:
        os.close(sink)
