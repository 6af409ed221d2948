"""The removal of files and folders, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The names that `set_aside` gives.
_SET_ASIDE = re.compile(r"\..+-[0-9a-f]{8}")


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, also one that is read-only.

    Do nothing if the path does not exist.
    """
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return

    def make_writable(function: Callable[[str], Any], name: str, _: object) -> None:
        failed_path = Path(name)
        for folder in (failed_path.parent, failed_path):
            if not folder.is_symlink():
                folder.chmod(stat.S_IRWXU)
        # A folder that could not be listed still has its content.
        if function in (os.scandir, os.open):
            shutil.rmtree(name, ignore_errors=True)
        else:
            function(name)

    shutil.rmtree(path, onerror=make_writable)


def clear(path: Path) -> None:
    """Rename `path`, if it exists, and remove it.

    Raise OSError if it cannot be renamed. What cannot be removed, as a process still
    writes into it, stays under the other name.
    """
    if os.path.lexists(path):
        aside = set_aside(path)
        with contextlib.suppress(OSError):
            remove(aside)


def set_aside(path: Path) -> Path:
    """Rename a path to a hidden name beside it, and return that. Raise OSError.

    `unfinished` finds the name if the removal is interrupted.
    """
    aside = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
    path.rename(aside)
    return aside


def remove_whole(path: Path) -> None:
    """Rename a folder and remove it, so that no part of it is seen. Raise OSError."""
    remove(set_aside(path))


def unfinished(folder: Path) -> list[Path]:
    """Return what interrupted removals left in a folder."""
    if not folder.is_dir():
        return []
    leftovers = []
    for path in folder.iterdir():
        is_folder = path.is_dir() and not path.is_symlink()
        if is_folder and _SET_ASIDE.fullmatch(path.name):
            leftovers.append(path)
    return sorted(leftovers)


def finish_removals(folder: Path) -> int:
    """Remove what interrupted removals left; return how many.

    What cannot be removed stays.
    """
    leftovers = unfinished(folder)
    for path in leftovers:
        with contextlib.suppress(OSError):
            remove(path)
    return sum(not path.exists() for path in leftovers)
