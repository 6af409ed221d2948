"""Writing a file whole or not at all. Owns that one step; knows nothing of what is in it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

UNFINISHED = ".new"
"""Suffix of what a writer that was killed may leave beside its file."""


def write_whole(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Put `data` in place of the file at `path`: on the disk before it has that name. Raises OSError.

    It is its owner's alone; `mode` 0o666 leaves that to the umask.
    """
    new = path.with_name(f".goal-{os.urandom(8).hex()}{UNFINISHED}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
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
