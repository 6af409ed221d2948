"""Files that are written whole, or line by line and durably, the lock of their only writer, and the removal of folders."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from goalrunner.core.errors import RecordError, record_errors

UNFINISHED = ".new"  # suffix of the file that a killed writer may leave behind


def write_whole(
    path: Path, data: bytes, *, mode: int = 0o600, lasting: bool = True
) -> None:
    """Replace the file at `path` by one that holds `data`, which is durable before it gets that name. Raise OSError.

    One that is not `lasting` may be damaged by a power cut. With `mode` 0o666 the umask decides who may read it. A link
    or a pipe of that name is replaced, not followed.
    """
    new = path.with_name(f".goal-{os.urandom(8).hex()}{UNFINISHED}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - no Path, a handle
            file.write(data)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Flush a folder: the names of its files. Raise OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file and return its handle. Raise OSError for anything else: opening a pipe could wait for ever."""
    handle = os.open(path, flags | os.O_NONBLOCK, 0o600)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


_BLOCK = 1 << 16

_flush = getattr(os, "fdatasync", os.fsync)
"""Flush data and length, without the times of change, which is several times faster. (macOS has only fsync.)"""


class AppendFile:
    """An open file, mode 0600, of `size` bytes, all of them in whole lines.

    `torn` is the number of bytes that were cut from its end when it was opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_dirty = True  # an earlier process may have been killed before its last wait for the disk
        self._broken = ""
        with (
            record_errors(f"cannot open {path}", "check GOAL_HOME and its permissions"),
            contextlib.ExitStack() as undo,
        ):
            new = not path.exists()
            self._handle = open_regular(
                path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            )
            undo.callback(self.close)
            before = os.fstat(self._handle).st_size
            self.size = self._whole(before)
            self.torn = before - self.size
            if self.torn:
                os.ftruncate(self._handle, self.size)
            if new or self.torn:
                os.fsync(self._handle)
            if new:
                sync_folder(path.parent)
                self._is_dirty = False
            undo.pop_all()

    def append(self, line: bytes, *, wait: bool = True) -> int:
        """Write a line (given without its newline) and return its offset. Raise RecordError, the file unchanged.

        It is durable when this returns, or with `wait=False` when `sync` has been called.
        """
        self._check()
        offset = self.size
        data = memoryview(line + b"\n")
        with record_errors(
            f"cannot write {self.path} at byte {offset}",
            "free some space; earlier records are intact",
        ):
            try:
                while data:
                    data = data[
                        os.write(self._handle, data) :
                    ]  # a full disk writes less, and fails only the next time
                if wait:
                    _flush(self._handle)
            except OSError:
                self._take_back(offset)
                raise
        self.size = offset + len(line) + 1
        self._is_dirty = not wait
        return offset

    def sync(self) -> None:
        """Make all lines durable. Raise RecordError if the disk refuses."""
        with record_errors(f"cannot write {self.path}"):
            try:
                if self._is_dirty:
                    _flush(self._handle)
            except OSError:
                self._broken = "its last lines cannot be made durable"
                raise
        self._is_dirty = False

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _check(self) -> None:
        why = self._broken
        if self._handle < 0:
            why = "it is closed"
        elif (now := os.fstat(self._handle)).st_nlink == 0 or not self.path.exists():
            why = "it was removed while the run was writing it"
        elif now.st_size != self.size:
            why = why or "another program has changed it"
        if why:
            raise RecordError(f"cannot write {self.path}: {why}")

    def _take_back(self, offset: int) -> None:
        try:
            os.ftruncate(self._handle, offset)
        except OSError as error:
            self._broken = f"a line was cut at byte {offset} and cannot be removed: {error.strerror}"
        with contextlib.suppress(OSError):
            os.fsync(self._handle)

    def _whole(self, end: int) -> int:
        """Return the number of bytes in whole lines."""
        while end > 0:
            start = max(0, end - _BLOCK)
            newline = os.pread(self._handle, end - start, start).rfind(b"\n")
            end = start + newline + 1
            if newline >= 0:
                break
        return end


class LogInUse(RecordError):
    """Another process writes this log; `owner` describes it."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.owner = owner
        super().__init__(
            f"run {folder.name} is active ({owner})",
            f"goal watch {folder.name} follows it",
        )


class WriterLock:
    """Held from creation to `close`. Raise LogInUse, with its owner, if another writer holds it, and RecordError."""

    def __init__(self, path: Path) -> None:
        with record_errors(
            f"cannot open {path}", "check GOAL_HOME and its permissions"
        ):
            self._handle = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            try:
                found = json.loads(os.pread(self._handle, _BLOCK, 0))
                owner = f"process {found['pid']} on {found['host']}"
            except (OSError, ValueError, KeyError, TypeError):
                owner = "another process"
            os.close(self._handle)
            raise LogInUse(path.parent, owner) from error
        with contextlib.suppress(
            OSError
        ):  # the name is for people; the lock holds without it
            os.ftruncate(self._handle, 0)
            os.pwrite(
                self._handle,
                json.dumps({"pid": os.getpid(), "host": os.uname().nodename}).encode(),
                0,
            )

    def close(self) -> None:
        """Release the lock; closing twice does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def lock_of(log: Path) -> Path:
    """Return the lock file of a log."""
    return log.with_suffix(".lock")


def is_written(log: Path) -> bool:
    """Return whether a process is writing that log now. A lock that cannot be read counts as held; a pipe is no lock."""
    try:
        handle = open_regular(lock_of(log), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.EINVAL)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


class SystemClock:
    """The time in UTC, and in seconds of a monotonic clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder, also one that is read-only; do nothing if the path does not exist."""
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return

    def writable(function: Callable[[str], Any], name: str, _: object) -> None:
        for there in (Path(name).parent, Path(name)):
            if not there.is_symlink():
                there.chmod(stat.S_IRWXU)
        if function in (os.scandir, os.open):  # a folder that could not be listed
            shutil.rmtree(name, ignore_errors=True)
        else:
            function(name)

    shutil.rmtree(path, onerror=writable)


def clear(path: Path) -> None:
    """Rename `path`, if it exists, and remove it. Raise OSError if it cannot be renamed.

    What cannot be removed, as a process still writes into it, stays under the other name.
    """
    if os.path.lexists(path):
        aside = set_aside(path)
        with contextlib.suppress(OSError):
            remove(aside)


def set_aside(path: Path) -> Path:
    """Rename a path to a hidden name beside it, which `unfinished` finds; return that. Raise OSError."""
    aside = path.with_name(f".{path.name}-{os.urandom(4).hex()}")
    path.rename(aside)
    return aside


def remove_whole(path: Path) -> None:
    shutil.rmtree(set_aside(path))


def unfinished(folder: Path) -> list[Path]:
    """Return what interrupted removals left in a folder."""
    found = folder.iterdir() if folder.is_dir() else ()
    name = re.compile(r"\..+-[0-9a-f]{8}")
    return sorted(
        path
        for path in found
        if name.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    )


def finish_removals(folder: Path) -> int:
    """Remove what interrupted removals left; return how many. What cannot be removed stays."""
    found = unfinished(folder)
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return sum(not path.exists() for path in found)
