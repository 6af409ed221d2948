"""The journal of an in-place check, on disk before the first change.

It lists what the check changes, and what no snapshot contains.
"""

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
from goalrunner.snapshots.patterns import CACHES
from goalrunner.snapshots.store_folder import store_of

NAME = "journal"
HIDDEN = ".goal-checks-"
"""The beginning of the name of a folder in the workspace.

Live files wait in it if GOAL_HOME is on another disk.
"""


class Move(NamedTuple):
    """One path that the check environment replaces."""

    path: str
    root: str
    """The folder of the layer; no folder between it and `path` is a link."""
    aside: str
    """The path of the live file or folder while it waits."""
    inode: int
    """That of the live file or folder; 0 if the path did not exist."""


@dataclass
class Journal:
    """The state before a check, in types of JSON.

    Paths are absolute unless stated otherwise. The undo writes it again without the
    parts that are done, so that they are not repeated over newer work.
    """

    folder: str
    """The folder of this journal.

    Its name is in the environment of every process of the check.
    """
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
    """Relative paths that an earlier check made.

    What this check makes in their place stays.
    """
    store: str = ""
    """The folder of the snapshot store: a copy of the workspace has its own.

    Empty in journals of earlier versions: that of the workspace.
    """

    def __post_init__(self) -> None:
        self.store = self.store or str(store_of(Path(self.workspace), Path(self.home)))
        self.moves = [Move(*row) for row in self.moves]

    @property
    def waiting(self) -> set[str]:
        """The folders in which live files wait."""
        return {os.path.dirname(move.aside) for move in self.moves}

    @property
    def program_folders(self) -> set[str]:
        """The folders of this program in the workspace, relative to it."""
        folders = {self.home}
        for folder in self.waiting:
            parent, name = os.path.split(folder)
            # Only hidden folders in the workspace are called `.git`; see `HIDDEN`.
            if name == ".git":
                folders.add(parent)
        return {os.path.relpath(folder, self.workspace) for folder in folders}

    def write(self) -> None:
        """Write it into its folder; it is durable on disk on return. Raise OSError."""
        folder = Path(self.folder)
        write_whole(folder / NAME, json.dumps(vars(self)).encode())
        # A new folder is durable once the folder that it lies in is written.
        for parent in (folder, folder.parent, folder.parent.parent):
            # Some file systems cannot flush a folder.
            with contextlib.suppress(OSError):
                sync_folder(parent)


def checks_folder(home: Path) -> Path:
    """Return the folder of all journals below GOAL_HOME."""
    return home / "checks"


def read(folder: Path) -> Journal:
    """Return the journal in a folder. Raise OSError if it is missing.

    Then nothing was changed yet, or everything was undone.
    """
    return Journal(**json.loads((folder / NAME).read_bytes()))


def lock(folder: Path) -> int | None:
    """Lock the folder of a journal; return the handle.

    The lock ends when the handle is closed here and in every process that got it.
    Return None if another process has locked the folder. Raise OSError if it is gone.
    """
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def journals_of(home: Path, store: Path) -> list[Journal]:
    """Return the journals of a workspace, or of one copy of it, by its store."""
    journals: list[Journal] = []
    for path in sorted(checks_folder(home).glob(f"*/{NAME}")):
        # Another process may undo the check and remove its journal.
        with contextlib.suppress(OSError):
            journal = read(path.parent)
            if journal.store == str(store):
                journals.append(journal)
    return journals


# Nothing in these has to be restored.
_CLOSED = frozenset(
    pattern.rstrip("/") for pattern in CACHES if pattern.endswith("/")
) | {".git"}
_USUAL = (0o644, 0o755)
"""The modes that a snapshot restores."""


def modes_of(
    workspace: str,
    skip: Collection[str],
    *,
    enter: bool = False,
) -> dict[str, int]:
    """Return the modes, as in `os.stat`, of folders, and of files with unusual ones.

    Paths are relative; the workspace itself is an empty string. Git folders, caches and
    what is in `skip`, with or without a slash, are left out. With `enter`, the user
    gets access to folders that a check has closed.
    """
    modes: dict[str, int] = {}
    waiting = [""]
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
