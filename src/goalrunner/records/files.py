"""Files that are written durably: as a whole, or line by line."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from goalrunner.core.errors import RecordError, record_errors

UNFINISHED = ".new"
"""The suffix of a file that a killed writer may leave behind."""


def write_whole(
    path: Path, data: bytes, *, mode: int = 0o600, lasting: bool = True
) -> None:
    """Replace the file at `path` by one that holds `data`. Raise OSError.

    The data is durable before it gets that name; without `lasting`, a power cut may
    damage it. With `mode` 0o666 the umask decides who may read it. A link or a pipe of
    that name is replaced, not followed.
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


class FolderNames:
    """The names of the files in a folder, which become durable together.

    A new file needs its name on the disk only when something in it has to be there, so
    that the files of a run wait once for all their names.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._has_changed = False

    def changed(self) -> None:
        """Note that there may be a name that is not durable yet."""
        self._has_changed = True

    def sync(self) -> None:
        """Make all names durable. Raise OSError."""
        if self._has_changed:
            sync_folder(self._folder)
            self._has_changed = False


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file and return its handle. Raise OSError for anything else."""
    # Opening a pipe could wait for ever.
    handle = os.open(path, flags | os.O_NONBLOCK, 0o600)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


_BLOCK = 1 << 16

# Flush data and length, without the times of change, which is several times faster.
# macOS has only fsync.
_flush = getattr(os, "fdatasync", os.fsync)


class AppendFile:
    """An open file, mode 0600, of `size` bytes, all of them in whole lines.

    `torn` is the number of bytes that were cut from its end when it was opened. `names`
    are those of its folder, if other files of the folder are written as well.
    """

    def __init__(self, path: Path, names: FolderNames | None = None) -> None:
        self.path = path
        self._names = names or FolderNames(path.parent)
        # An earlier process may have been killed before its last wait for the disk.
        self._is_dirty = True
        # Why nothing can be written any more; empty if it can.
        self._defect = ""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with (
            record_errors(f"cannot open {path}", "check GOAL_HOME and its permissions"),
            contextlib.ExitStack() as undo,
        ):
            is_new = not path.exists()
            self._handle = open_regular(path, flags)
            undo.callback(self.close)
            old_size = os.fstat(self._handle).st_size
            self.size = self._size_of_whole_lines(old_size)
            self.torn = old_size - self.size
            if self.torn:
                os.ftruncate(self._handle, self.size)
            if self.torn:
                os.fsync(self._handle)
            # Also of an old file: its process may have been killed before it did so.
            self._names.changed()
            self._is_dirty = not is_new
            undo.pop_all()

    def append(self, line: bytes, *, wait: bool = True) -> int:
        """Write a line, given without its newline, and return its offset.

        It is durable when this returns, or with `wait=False` when `sync` has been
        called. Raise RecordError; the file is then unchanged.
        """
        self._check()
        offset = self.size
        unwritten = memoryview(line + b"\n")
        with record_errors(
            f"cannot write {self.path} at byte {offset}",
            "free some space; earlier records are intact",
        ):
            try:
                # A full disk writes less, and fails only the next time.
                while unwritten:
                    unwritten = unwritten[os.write(self._handle, unwritten) :]
                if wait:
                    self._make_durable()
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
                    self._make_durable()
            except OSError:
                # After a failed flush, the kernel drops the data and the next one
                # succeeds.
                self._defect = "its last lines cannot be made durable"
                raise
        self._is_dirty = False

    def _make_durable(self) -> None:
        """Flush the lines, and the name of the file if that is new. Raise OSError."""
        _flush(self._handle)
        self._names.sync()

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _check(self) -> None:
        """Raise RecordError if a line cannot be appended to what was written."""
        reason = self._why_unwritable()
        if reason:
            raise RecordError(f"cannot write {self.path}: {reason}")

    def _why_unwritable(self) -> str:
        if self._handle < 0:
            return "it is closed"
        status = os.fstat(self._handle)
        if status.st_nlink == 0 or not self.path.exists():
            return "it was removed while the run was writing it"
        if not self._defect and status.st_size != self.size:
            return "another program has changed it"
        return self._defect

    def _take_back(self, offset: int) -> None:
        """Remove a line that was not written whole."""
        try:
            os.ftruncate(self._handle, offset)
        except OSError as error:
            self._defect = (
                f"a line was cut at byte {offset} and cannot be removed: "
                f"{error.strerror}"
            )
        with contextlib.suppress(OSError):
            os.fsync(self._handle)

    def _size_of_whole_lines(self, size: int) -> int:
        """Return the number of bytes in whole lines."""
        end = size
        while end > 0:
            start = max(0, end - _BLOCK)
            newline = os.pread(self._handle, end - start, start).rfind(b"\n")
            end = start + newline + 1
            if newline >= 0:
                break
        return end


def keep_content(path: Path, data: bytes) -> None:
    """Write the file at `path`, unless it holds `data`. Raise OSError."""
    with contextlib.suppress(OSError):
        handle = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
        with open(handle, "rb") as file:  # noqa: PTH123 - a handle
            if file.read() == data:
                return
    write_whole(path, data, lasting=False)
