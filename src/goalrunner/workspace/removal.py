"""Removing a folder of ours so that half of it is never seen. Owns the name that it has meanwhile, and what a kill leaves.

Whoever removes holds a lock on the folder, which the system drops with the process: one without it is nobody's work.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

_ASIDE = re.compile(r"\..+-[0-9a-f]{8}")


def remove_whole(path: Path) -> None:
    """Remove a folder: away under its name at once, then piece by piece. Raises OSError."""
    with _held(path):
        aside = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
        path.rename(aside)
        shutil.rmtree(aside)


def unfinished(folder: Path) -> list[Path]:
    """What removals that were killed left in a folder; not what somebody removes now, and nothing of another name."""
    return sorted(path for path in _aside(folder) if not _is_removed_now(path))


def finish(folder: Path) -> int:
    """Remove what killed removals left; gives how many. Never raises: what cannot be removed stays for another time."""
    done = 0
    for path in unfinished(folder):
        with contextlib.suppress(OSError), _held(path):
            shutil.rmtree(path)
            done += 1
    return done


def _aside(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if _ASIDE.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                yield path


def _is_removed_now(path: Path) -> bool:
    try:
        with _held(path):
            return False
    except OSError:
        return True


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """The lock on a folder. Raises OSError where another process has it."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
