"""The journal of an in-place check: what the check changes and what no snapshot contains, on disk before the first change."""

# Paths are strings here, as in the journal.

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from goalrunner.records.files import sync_folder, write_whole
from goalrunner.snapshots.diff import CACHES

NAME = "journal"
HIDDEN = ".goal-checks-"
"""The beginning of the name of a folder in the workspace in which live files wait if GOAL_HOME is on another disk."""


class Move(NamedTuple):
    """One path that the check environment replaces. `inode` 0: nothing stood there before."""

    path: str
    root: str
    """The folder of the layer; every folder between it and `path` is a real one, not a link."""
    aside: str
    """Where the live file or folder waits."""
    inode: int


@dataclass
class Journal:
    """The state before a check, in types that JSON holds; paths are absolute unless stated otherwise.

    The undo writes it again without the parts that are done, so that they are not repeated over newer work.
    """

    folder: str
    """The folder of this journal. Its name is in the environment of every process of the check."""
    pid: int
    workspace: str
    home: str
    start: str
    """The folder with the ignore rules of the run."""
    snapshot: dict[str, str]
    """Empty once the files that existed are restored."""
    moves: list[Move]
    modes: dict[str, int]
    """By path relative to the workspace; see `modes_of`."""
    outputs: list[str]
    """Patterns of files that the check may change."""
    made: list[str]
    """Relative paths that an earlier check made: what this one makes in their place stays."""

    def __post_init__(self) -> None:
        self.moves = [Move(*row) for row in self.moves]

    @property
    def waiting(self) -> set[str]:
        """The folders in which live files wait."""
        return {os.path.dirname(move.aside) for move in self.moves}

    @property
    def own(self) -> set[str]:
        """The folders of this program in the workspace, relative to it."""
        hidden = {
            os.path.dirname(folder)
            for folder in self.waiting
            if os.path.basename(folder) == ".git"
        }
        return {
            os.path.relpath(folder, self.workspace) for folder in (self.home, *hidden)
        }

    def write(self) -> None:
        """Write it into its folder; it is durable on disk on return. Raise OSError."""
        folder = Path(self.folder)
        write_whole(folder / NAME, json.dumps(vars(self)).encode())
        for parent in (folder, folder.parent, folder.parent.parent):
            with contextlib.suppress(OSError):  # not every file system can
                sync_folder(parent)


def checks_folder(home: Path) -> Path:
    """Return the folder of all journals below GOAL_HOME."""
    return home / "checks"


def read(folder: Path) -> Journal:
    """Return the journal in a folder. Raise OSError if it is missing: nothing was changed, or everything was undone."""
    return Journal(**json.loads((folder / NAME).read_bytes()))


def lock(folder: Path) -> int | None:
    """Lock the folder of a journal until the handle is closed here and in every process that got it.

    Return None if another process has locked it. Raise OSError if it is gone.
    """
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def found(home: Path, workspace: str) -> list[Journal]:
    """Return the journals of a workspace."""
    result: list[Journal] = []
    for path in sorted(checks_folder(home).glob(f"*/{NAME}")):
        with contextlib.suppress(OSError):
            result.append(read(path.parent))
    return [journal for journal in result if journal.workspace == workspace]


_CLOSED = frozenset(
    pattern.rstrip("/") for pattern in CACHES if pattern.endswith("/")
) | {".git"}
_USUAL = (0o644, 0o755)


def modes_of(
    workspace: str, skip: Collection[str], *, enter: bool = False
) -> dict[str, int]:
    """Return the modes, as in `os.stat`, of folders, and of files with unusual permissions.

    Paths are relative; the workspace itself is an empty string. Git folders, caches and what is in `skip`, with or
    without a slash, are left out. `enter`: their owner gets access to folders that a check has closed.
    """
    modes, waiting = dict[str, int](), [""]
    while waiting:
        folder = waiting.pop()
        place = os.path.join(workspace, folder)
        with contextlib.suppress(OSError):
            modes[folder] = mode = os.lstat(place).st_mode
            if enter and mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(place, stat.S_IMODE(mode) | stat.S_IRWXU)
            with os.scandir(place) as entries:
                for entry in entries:
                    path = os.path.join(folder, entry.name)
                    if path in skip or f"{path}/" in skip or entry.name in _CLOSED:
                        continue
                    mode = entry.stat(follow_symlinks=False).st_mode
                    if stat.S_ISDIR(mode):
                        waiting.append(path)
                    elif stat.S_ISREG(mode) and stat.S_IMODE(mode) not in _USUAL:
                        modes[path] = mode
    return modes
