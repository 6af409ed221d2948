"""Removing files and folders, also read-only ones and folders that a process still writes into."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PATIENCE = 5.0
"""Seconds to wait for processes that still write into a folder."""


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, also one that is read-only; do nothing if the path does not exist."""
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return

    def writable(function: Callable[[str], Any], name: str, _: object) -> None:
        for there in (os.path.dirname(name), name):
            if not os.path.islink(there):
                os.chmod(there, stat.S_IRWXU)
        if function in (os.scandir, os.open):  # a folder that could not be listed
            shutil.rmtree(name, ignore_errors=True)
        else:
            function(name)

    shutil.rmtree(path, onerror=writable)


def clear(path: Path) -> None:
    """Remove what stands at `path`, even if a process still writes into it: rename it, then remove that.

    Raise OSError if it cannot be renamed. What cannot be removed for several seconds stays under the other name.
    """
    if not os.path.lexists(path):
        return
    aside = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
    path.rename(aside)
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            remove(aside)
            return
        except OSError:  # a process that is being ended wrote once more
            if time.monotonic() > deadline:
                return
        time.sleep(0.05)
