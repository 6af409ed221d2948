"""Writing a file whole or not at all, and opening folders without following links."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

UNFINISHED = ".new"
"""Suffix of what a writer that was killed may leave beside its file."""

_SEARCHED: int = getattr(os, "O_PATH", os.O_RDONLY)
"""On Linux a folder that can be searched and not listed can be opened, too."""


def write_whole(path: Path, data: bytes, *, mode: int = 0o600, folder: int | None = None) -> None:
    """Put `data` in place of the file at `path`: on the disk before it has that name. Raises OSError.

    It is its owner's alone; `mode` 0o666 leaves that to the umask. With an open `folder`, `path` is a name in it. A link
    or a pipe of that name is replaced, not followed.
    """
    new = path.with_name(f".goal-{os.urandom(8).hex()}{UNFINISHED}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=folder)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - no Path, a handle
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=folder)
        raise


def open_folder(root: Path, parts: Iterable[str], *, make: bool = False) -> int:
    """Open the folder that `parts` lead to below `root`, and return its handle. With `make`, missing folders are made.

    Raise OSError if one of them is missing, a file or a symbolic link.
    """
    here = os.open(root, _SEARCHED | os.O_DIRECTORY)
    try:
        for part in parts:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
            below = os.open(part, _SEARCHED | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here
