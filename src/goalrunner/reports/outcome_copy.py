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

_DESCRIPTOR = re.compile(r"(?:/dev/fd|/proc/(\d+)/(?:task/\d+/)?fd)/(\d+)")
_MOST_LINKS = 40
_PATIENCE = 10
"""Seconds for which a reader that takes nothing is waited for."""
_A_FILE = "give the path of a file"


def check_copy(path: Path, taken: Mapping[str, Path] | None = None) -> None:
    """Make sure, before anything is spent, that a copy can be put there. Raises UsageError that says why not.

    `taken` holds files of the run that a copy must not replace, by what they are: "the goal file".
    """
    for what, other in (taken or {}).items():
        if _same(path, other):
            raise UsageError(f"--output {path} is {what}; the outcome would replace it", "give another path")
    number = _descriptor(path)
    if number is not None:
        _check_descriptor(path, number)
        return
    target = Path(os.path.realpath(path))
    found = _mode(path)
    if found is not None and stat.S_ISDIR(found):
        raise UsageError(f"--output {path} is a folder", _A_FILE)
    if found is not None and stat.S_ISSOCK(found):
        raise UsageError(f"--output {path} is a socket", _A_FILE)
    if found is not None and not stat.S_ISREG(found):
        if not os.access(path, os.W_OK):
            raise UsageError(f"--output {path} may not be written to", "choose another path")
        return
    _check_folder(path, target)


class OutcomeCopy:
    """The place of the copy, opened before the run. Raise UsageError if nothing can be written there."""

    def __init__(self, path: Path, taken: Mapping[str, Path] | None = None) -> None:
        """`taken` is that of `check_copy`."""
        check_copy(path, taken)
        self.path = path
        self._target = Path(os.path.realpath(path))
        handle = _opened(path)
        self.is_stream = handle is not None
        """Whether what is written there goes on to a reader, as with `/dev/stdout`, and is no file afterwards."""
        self._handle = -1 if handle is None else handle
        if handle is not None:
            weakref.finalize(self, os.close, handle)

    def write(self, text: str) -> None:
        """Write the text there. Raise GoalError if that is not possible."""
        data = text.encode("utf-8", errors="replace")
        try:
            if self.is_stream:
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
            # The user's own: whoever may read new files of theirs may read it.
            write_whole(Path(self._target.name), data, mode=0o666, folder=folder)
        finally:
            os.close(folder)


def _opened(path: Path) -> int | None:
    """Return a handle of the pipe, device or open file at a path; None for a file. Raise UsageError."""
    number = _descriptor(path)
    if number is not None:
        # Opened by its name, a file behind it would be written from its beginning.
        return os.dup(number)
    found = _mode(path)
    if found is None or stat.S_ISREG(found):
        return None
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise UsageError(
                f"--output {path} is a pipe that no process reads", f"start its reader first, such as: cat {path} &"
            ) from None
        raise UsageError(f"--output {path}: {(error.strerror or str(error)).lower()}", "choose another path") from None


def _same(path: Path, other: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        if os.path.samefile(path, other):  # noqa: PTH121
            return True
    return os.path.realpath(path) == os.path.realpath(other)


def _mode(path: Path) -> int | None:
    """The mode of what is there, links followed; None where there is nothing. Raises UsageError where that is not told."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"--output {path}: {why}", "choose another path") from None


def _check_folder(path: Path, target: Path) -> None:
    folder = path.absolute().parent if not path.is_symlink() else target.parent
    link = f" leads to {target}" if path.is_symlink() else ""
    if not os.path.isdir(folder):  # noqa: PTH112 - never raises
        exists = os.path.lexists(folder)
        what = "is no folder" if exists else "does not exist"
        hint = "choose another path" if exists else f"mkdir -p {folder}"
        raise UsageError(f"--output {path}{link}: the folder {folder} {what}", hint)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise UsageError(f"--output {path}: the folder {target.parent} may not be written to", "choose another path")


def _check_descriptor(path: Path, number: int) -> None:
    try:
        access = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
    except OSError:
        raise UsageError(f"--output {path}: no file is open under this number", "choose another path") from None
    if access == os.O_RDONLY:
        raise UsageError(f"--output {path} is open for reading only", "choose another path")


def _descriptor(path: Path) -> int | None:
    """The number of the open file of ours that a path stands for (`/dev/stdout`, `/proc/self/fd/63`); else None.

    What such a link points at is often no path at all ("pipe:[4711]"), so the links are followed up to it, not through.
    """
    here = os.path.abspath(path)  # noqa: PTH100
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(here)
        here = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118
        found = _DESCRIPTOR.fullmatch(here)
        if found is not None and found[1] in (None, str(os.getpid())):
            return int(found[2])
        try:
            here = os.path.join(os.path.dirname(here), os.readlink(here))  # noqa: PTH115, PTH118, PTH120
        except (OSError, ValueError):
            return None
    return None


def _write(handle: int, data: bytes) -> None:
    """Write all of it. Raise TimeoutError if a reader takes nothing for a while."""
    rest = memoryview(data)
    ready = select.poll()
    ready.register(handle, select.POLLOUT)
    while rest:
        if not ready.poll(_PATIENCE * 1000):
            raise TimeoutError(errno.ETIMEDOUT, f"its reader took nothing for {_PATIENCE} s")
        with contextlib.suppress(BlockingIOError):
            rest = rest[os.write(handle, rest) :]
