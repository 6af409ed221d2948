"""A file that only grows, line by line, and is on disk when `append` returns. Owns size, flushing and taking back.

A line is there whole or not at all, as far as one process can see to it: what a full disk cut is taken back. What a
crash cut stays as a tail without a newline, which is cut when the file is opened again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from goalrunner.errors import RecordError

_BLOCK = 1 << 16

_flush = getattr(os, "fdatasync", os.fsync)
"""Data and length to the disk; times of change may come later, which is several times faster. (macOS has only fsync.)"""


class AppendFile:
    """An open file, mode 0600. `torn` is the number of bytes that were cut from its end when it was opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._broken = ""
        self._handle = -1
        try:
            new = not path.exists()
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            self._size = os.fstat(self._handle).st_size
            if new:
                os.fsync(self._handle)
                _sync_folder(path.parent)
            self.torn = self._cut_tail()
        except OSError as error:
            self.close()
            raise RecordError(f"cannot open {path}: {error.strerror}", "check GOAL_HOME and its permissions") from error

    @property
    def size(self) -> int:
        """Bytes, all of them in whole lines."""
        return self._size

    def append(self, line: bytes) -> int:
        """Write a line (given without its newline) durably; gives its offset. Raises RecordError, the file unchanged."""
        self._check()
        offset = self._size
        data = memoryview(line + b"\n")
        try:
            while data:
                data = data[os.write(self._handle, data) :]  # a full disk writes less, and fails only the next time
            _flush(self._handle)
        except OSError as error:
            self._take_back(offset)
            raise RecordError(
                f"cannot write {self.path}: {error.strerror} at byte {offset}",
                "free some space; what is there is intact",
            ) from error
        self._size = offset + len(line) + 1
        return offset

    def read(self, offset: int, length: int) -> bytes:
        """Bytes as they are on disk; fewer at the end. Raises RecordError."""
        try:
            return os.pread(self._handle, length, offset)
        except OSError as error:
            raise RecordError(f"cannot read {self.path}: {error.strerror} at byte {offset}") from error

    def close(self) -> None:
        """Give the file back; closing twice does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _check(self) -> None:
        if self._handle < 0:
            raise RecordError(f"cannot write {self.path}: it is closed")
        now = os.fstat(self._handle)
        if now.st_nlink == 0 or not self.path.exists():
            raise RecordError(f"cannot write {self.path}: it was removed while the run was writing it")
        if self._broken or now.st_size != self._size:
            raise RecordError(f"cannot write {self.path}: {self._broken or 'another program has changed it'}")

    def _take_back(self, offset: int) -> None:
        try:
            os.ftruncate(self._handle, offset)
        except OSError as error:
            self._broken = f"a line was cut at byte {offset} and cannot be taken back: {error.strerror}"
        with contextlib.suppress(OSError):
            os.fsync(self._handle)

    def _cut_tail(self) -> int:
        end = self._size
        while end > 0:
            start = max(0, end - _BLOCK)
            newline = os.pread(self._handle, end - start, start).rfind(b"\n")
            end = start + newline + 1
            if newline >= 0:
                break
        torn = self._size - end
        if torn:
            os.ftruncate(self._handle, end)
            os.fsync(self._handle)
            self._size = end
        return torn


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
