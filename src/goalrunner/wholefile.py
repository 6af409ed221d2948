"""Writing a file whole or not at all, for its owner alone. Owns that one step; knows nothing of what is in it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

UNFINISHED = ".new"
"""Suffix of what a writer that was killed may leave beside its file."""


def write_whole(path: Path, data: bytes) -> None:
    """Put `data` in place of the file at `path`, mode 0600: on the disk before it has that name. Raises OSError."""
    new = path.with_name(f".{path.name}-{os.urandom(4).hex()}{UNFINISHED}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - no Path, a handle
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
