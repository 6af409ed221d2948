"""The copy of an outcome that `--output` asks for."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import select
import stat
import weakref
from collections.abc import Mapping
from pathlib import Path

from goalrunner.core.errors import GoalError, UsageError
from goalrunner.records.run_folder import open_folder, write_whole

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
_TIMEOUT = 10
"""Seconds to wait for a reader that reads nothing."""
_ANOTHER = "choose another path"


class OutcomeCopy:
    """A file, pipe, device or open file that gets the outcome; checked and opened before the run."""

    def __init__(self, path: Path, taken: Mapping[str, Path] | None = None) -> None:
        """Raise UsageError if nothing can be written there.

        `taken` are files of the run that a copy must not replace, by what they are: "the goal file".
        """
        for what, other in (taken or {}).items():
            if _same(path, other):
                raise UsageError(f"--output {path} is {what}; the outcome would replace it", "give another path")
        self.path = path
        self._handle = _open_stream(path)
        self._target = Path(os.path.realpath(path))
        if self._handle is None:
            _check_folder(path, self._target)
        else:
            weakref.finalize(self, os.close, self._handle)

    @property
    def is_stream(self) -> bool:
        """Whether the text goes to a reader, as with `/dev/stdout`, and is no file afterwards."""
        return self._handle is not None

    def write(self, text: str) -> None:
        """Write the text there. Raise GoalError if that is not possible."""
        data = text.encode("utf-8", errors="replace")
        try:
            if self._handle is not None:
                _write(self._handle, data)
            else:
                self._replace(data)
        except OSError as error:
            raise GoalError(f"--output {self.path} could not be written: {error.strerror or error}") from error

    def _replace(self, data: bytes) -> None:
        try:
            folder = open_folder(Path("/"), self._target.parent.parts[1:])
        except NotADirectoryError:
            why = "a folder of its path was replaced by a link or a file during the run"
            raise GoalError(f"--output {self.path} could not be written: {why}") from None
        try:
            # With the permissions of any new file of the user.
            write_whole(Path(self._target.name), data, mode=0o666, folder=folder)
        finally:
            os.close(folder)


def _same(path: Path, other: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        if os.path.samefile(path, other):  # noqa: PTH121
            return True
    return os.path.realpath(path) == os.path.realpath(other)


def _open_stream(path: Path) -> int | None:
    """Open a pipe, a device, or an open file of this process (`/dev/fd/63`). Return None for a file. Raise UsageError."""
    found = _DESCRIPTOR.fullmatch(str(path))
    if found or str(path) in _STANDARD:
        return _duplicated(path, int(found[1]) if found else _STANDARD[str(path)])
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return None
        for test, what in ((stat.S_ISDIR, "folder"), (stat.S_ISSOCK, "socket")):
            if test(mode):
                raise UsageError(f"--output {path} is a {what}", "give the path of a file")
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENXIO:
            hint = f"start its reader first, such as: cat {path} &"
            raise UsageError(f"--output {path} is a pipe that no process reads", hint) from None
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"--output {path}: {why}", _ANOTHER) from None


def _duplicated(path: Path, number: int) -> int:
    try:
        access = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
    except OSError:
        raise UsageError(f"--output {path}: no file is open under this number", _ANOTHER) from None
    if access == os.O_RDONLY:
        raise UsageError(f"--output {path} is open for reading only", _ANOTHER)
    return os.dup(number)


def _check_folder(path: Path, target: Path) -> None:
    folder = path.absolute().parent if not path.is_symlink() else target.parent
    link = f" leads to {target}" if path.is_symlink() else ""
    if not os.path.isdir(folder):  # noqa: PTH112 - never raises
        exists = os.path.lexists(folder)
        what = "is no folder" if exists else "does not exist"
        hint = _ANOTHER if exists else f"mkdir -p {folder}"
        raise UsageError(f"--output {path}{link}: the folder {folder} {what}", hint)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise UsageError(f"--output {path}: the folder {target.parent} may not be written to", _ANOTHER)


def _write(handle: int, data: bytes) -> None:
    """Write all data. Raise TimeoutError if the reader reads nothing for a while."""
    rest = memoryview(data)
    ready = select.poll()
    ready.register(handle, select.POLLOUT)
    while rest:
        if not ready.poll(_TIMEOUT * 1000):
            raise TimeoutError(errno.ETIMEDOUT, f"its reader took nothing for {_TIMEOUT} s")
        with contextlib.suppress(BlockingIOError):
            rest = rest[os.write(handle, rest) :]
