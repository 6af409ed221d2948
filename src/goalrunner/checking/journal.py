"""The journal of an in-place check: everything that is needed to undo it, on disk before the first change.

A journal is one line of JSON, followed by the content of the git files that it lists. Its file is locked from its
creation to the end of the undo; the lock ends with the last process that has the file open.
"""

# Paths are strings here, as in the journal.

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from goalrunner.records.run_folder import sync_folder

NAME = "journal"
_DONE = "done"


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
    """A file, link or folder of a git folder. `offset` -1: the content is not in the journal."""

    path: str
    mode: int
    size: int
    mtime: int
    inode: int
    offset: int
    target: str


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
    folders: dict[str, int]
    """The mode of each folder that no rule ignores, relative to the workspace."""
    modes: dict[str, int]
    """The modes of files that are neither 0644 nor 0755, relative to the workspace."""
    special: list[str]
    """Pipes, sockets and devices that no rule ignores, relative to the workspace."""
    repositories: list[str]
    """The folders with a `.git`, relative to the workspace."""
    git_places: list[str]
    git_files: list[GitFile]
    git_whole: bool
    """Whether `git_files` lists everything below `git_places`, so that a file that is not listed is new."""

    @classmethod
    def parse(cls, line: bytes) -> Journal:
        """Return the journal in a line of JSON. Raise ValueError if it is none."""
        try:
            journal = cls(**json.loads(line))
        except TypeError as error:
            raise ValueError(str(error)) from error
        journal.moves = [Move(*row) for row in journal.moves]
        journal.git_files = [GitFile(*row) for row in journal.git_files]
        return journal

    @property
    def asides(self) -> set[str]:
        """The folders in which live files wait."""
        return {os.path.dirname(move.aside) for move in self.moves}


class OpenJournal:
    """A journal whose file this process holds locked, and the list of the steps of the undo that are done."""

    def __init__(self, handle: int, folder: Path, journal: Journal, content_start: int) -> None:
        self.handle = handle
        self.folder = folder
        self.journal = journal
        self._content_start = content_start
        self._done: set[str] = set()
        with contextlib.suppress(OSError):
            self._done.update((folder / _DONE).read_text().split("\n")[:-1])

    def content(self, file: GitFile) -> bytes:
        """Return the recorded content of a git file. Raise OSError."""
        return os.pread(self.handle, file.size, self._content_start + file.offset)

    def is_done(self, step: str) -> bool:
        """Return whether a step of the undo was completed, by this process or one before it."""
        return step in self._done

    def set_done(self, step: str) -> None:
        """Record that a step of the undo is complete."""
        self._done.add(step)
        # A check may have removed the folder. A repeated step is harmless as long as no person works in between.
        with contextlib.suppress(OSError), (self.folder / _DONE).open("a") as file:
            file.write(f"{step}\n")

    def remove(self) -> None:
        """Remove the journal and its folder: the check is undone."""
        for name in (NAME, _DONE, "watchdog.log"):
            (self.folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def close(self) -> None:
        """Release the lock, unless another process has the file open as well."""
        os.close(self.handle)


def checks_folder(home: Path) -> Path:
    """Return the folder of all journals below GOAL_HOME."""
    return home / "checks"


def create(folder: Path, journal: Journal, contents: Iterable[bytes]) -> OpenJournal:
    """Write a journal into its folder and lock it; it is durable on disk on return. Raise OSError."""
    handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        data = b"".join(contents)
        # The size comes first: a file that a power cut shortened is no journal, and nothing was changed after it.
        line = f"{len(data):020d}{json.dumps(vars(journal))}\n".encode()
        with open(handle, "wb", closefd=False) as file:
            file.write(line)
            file.write(data)
        os.fsync(handle)
        for parent in (folder, folder.parent, folder.parent.parent):
            with contextlib.suppress(OSError):  # not every file system can
                sync_folder(parent)
        return OpenJournal(handle, folder, journal, len(line))
    except BaseException:
        os.close(handle)
        raise


def read(handle: int, folder: Path) -> OpenJournal:
    """Return the journal in an open file. Raise ValueError if it is not complete."""
    with open(handle, "rb", closefd=False) as file:
        file.seek(0)
        size, line = int(file.read(20)), file.readline()
    start = 20 + len(line)
    if not line.endswith(b"\n") or os.fstat(handle).st_size != start + size:
        raise ValueError(f"{folder / NAME} is not complete")
    return OpenJournal(handle, folder, Journal.parse(line), start)


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
