"""The journal of an in-place check, on disk before the first change, and the renames of the check and its undo.

The journal's file is locked from its creation to the end of the undo; the lock ends with the last process that has the
file open.
"""

# Paths are strings here, as in the journal.

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from goalrunner.checking.files import lstat, make_parents, rename
from goalrunner.records.files import sync_folder
from goalrunner.snapshots.files import remove

NAME, DONE, LOG = "journal", "done", "watchdog.log"


class Move(NamedTuple):
    """One path that the check environment replaces. `inode` 0: nothing stood there before."""

    path: str
    root: str
    """The folder of the layer; every folder between it and `path` is a real one, not a link."""
    aside: str
    """Where the live file or folder waits. Its name plus a suffix is used for what stands at `path` at the end."""
    inode: int
    mode: int


class GitFile(NamedTuple):
    """A file, link or folder of a git folder."""

    path: str
    mode: int
    mtime: int
    data: str | None
    """In base64, the content of a file or the target of a link; None if it is not recorded."""


@dataclass
class Journal:
    """The state before a check, in types that JSON holds; paths are absolute unless stated otherwise."""

    token: str
    """In the environment of every process of the check."""
    guard: str
    """The token of the run's watchdog; empty if there is none."""
    pid: int
    workspace: str
    home: str
    start: str
    """The folder with the ignore rules of the run."""
    snapshot: dict[str, str]
    outputs: list[str]
    puts: list[str]
    """The files of the layers, relative to the workspace: no outputs, whatever their names."""
    since: int
    """Nanoseconds; a file whose inode changed at that time or later was written by the check."""
    moves: list[Move]
    modes: dict[str, int]
    """By path relative to the workspace: what a snapshot does not contain; see `live_state.look`."""
    git_places: list[str]
    git_files: list[GitFile]

    def __post_init__(self) -> None:
        self.moves = [Move(*row) for row in self.moves]
        self.git_files = [GitFile(*row) for row in self.git_files]

    @property
    def asides(self) -> set[str]:
        return {os.path.dirname(move.aside) for move in self.moves}


class OpenJournal(NamedTuple):
    """A journal whose file this process holds locked, until `handle` is closed here and in every process that got it."""

    handle: int
    folder: Path
    journal: Journal

    def is_done(self, step: str) -> bool:
        """Return whether a step of the undo was completed, by this process or one before it."""
        with contextlib.suppress(OSError):
            return ascii(step) in (self.folder / DONE).read_text().splitlines()
        return False

    def set_done(self, step: str) -> None:
        """Record that a step is complete, so that no later undo repeats it over what a person has done since."""
        with (
            contextlib.suppress(OSError),
            (self.folder / DONE).open("a") as file,
        ):  # a check may have removed the folder
            file.write(f"{step!a}\n")


def checks_folder(home: Path) -> Path:
    """Return the folder of all journals below GOAL_HOME."""
    return home / "checks"


def create(folder: Path, journal: Journal) -> OpenJournal:
    """Write a journal into its folder and lock it; it is durable on disk on return. Raise OSError."""
    data = json.dumps(vars(journal)).encode()
    handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with open(handle, "wb", closefd=False) as file:
            file.write(data)
        os.fsync(handle)
        for parent in (folder, folder.parent, folder.parent.parent):
            with contextlib.suppress(OSError):  # not every file system can
                sync_folder(parent)
    except BaseException:
        os.close(handle)
        raise
    return OpenJournal(handle, folder, journal)


def read(handle: int, folder: Path) -> OpenJournal:
    """Return the journal in an open file. Raise ValueError if it is not complete: nothing was changed after it."""
    with open(handle, "rb", closefd=False) as file:
        file.seek(0)
        values = json.loads(file.read())
    try:
        return OpenJournal(handle, folder, Journal(**values))
    except TypeError as error:
        raise ValueError(f"{folder / NAME}: {error}") from error


def lock(folder: Path) -> int | None:
    """Return the open file of a journal, locked; None if another process has it. Raise OSError if there is none."""
    handle = os.open(folder / NAME, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.stat(folder / NAME)
    except BlockingIOError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    return handle


def found(home: Path) -> Sequence[tuple[Path, Journal]]:
    """Return the complete journals below GOAL_HOME and their folders, oldest first."""
    result: list[tuple[Path, Journal]] = []
    for path in checks_folder(home).glob(f"*/{NAME}"):
        with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
            result.append((path.parent, read(file.fileno(), path.parent).journal))
    return sorted(result, key=lambda row: row[1].since)


def move_back(move: Move) -> bool:
    """Put one live path back in place of what stands there now; return False if the live one is gone.

    Raise OSError. Repeating it changes nothing.
    """
    waiting, now = lstat(move.aside), lstat(move.path)
    if move.inode and not waiting:
        # Never set aside, or back already. Otherwise the reset to the snapshot restores what no rule ignores.
        return now is not None and now.st_ino == move.inode
    make_parents(move.root, move.path)
    if lstat(move.path):
        rename(move.path, f"{move.aside}.check-{os.urandom(4).hex()}")
    if waiting:
        rename(move.aside, move.path)
        if stat.S_ISDIR(move.mode):
            os.chmod(move.path, stat.S_IMODE(move.mode))
    return True


def remove_aside(folder: str) -> bool:
    """Remove a folder of set-aside paths with what checks wrote in it; return False if a live path is still there."""
    left = os.listdir(folder) if os.path.isdir(folder) else []
    for name in left:
        if ".check-" in name:
            with contextlib.suppress(OSError):
                remove(Path(folder, name))
    with contextlib.suppress(OSError):
        os.rmdir(folder)
        if os.path.basename(folder) == ".git":
            os.rmdir(os.path.dirname(folder))
    return all(".check-" in name for name in left)
