"""The lock of the only process that writes a log."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from pathlib import Path

from goalrunner.core.errors import RecordError, record_errors
from goalrunner.records.files import open_regular

# Bytes that are read of the file of a lock.
_LARGEST = 1 << 16


class LogInUse(RecordError):
    """Another process writes this log; `owner` describes it."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.owner = owner
        super().__init__(
            f"run {folder.name} is active ({owner})",
            f"goal watch {folder.name} follows it",
        )


class WriterLock:
    """Held from creation to `close`, or to the end of the process.

    Raise LogInUse if another writer holds it, and RecordError.
    """

    def __init__(self, path: Path) -> None:
        with record_errors(
            f"cannot open {path}", "check GOAL_HOME and its permissions"
        ):
            self._handle = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = _owner(self._handle)
            os.close(self._handle)
            raise LogInUse(path.parent, owner) from error
        owner_data = {"pid": os.getpid(), "host": os.uname().nodename}
        # The name is for people; the lock holds without it.
        with contextlib.suppress(OSError):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, json.dumps(owner_data).encode(), 0)

    def close(self) -> None:
        """Release the lock; closing twice does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _owner(handle: int) -> str:
    """Return the process that holds a lock, in words."""
    try:
        owner = json.loads(os.pread(handle, _LARGEST, 0))
        return f"process {owner['pid']} on {owner['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def lock_of(log: Path) -> Path:
    """Return the lock file of a log."""
    return log.with_suffix(".lock")


def has_writer(log: Path) -> bool:
    """Return whether a process is writing that log now.

    A lock that cannot be read counts as held; a pipe is no lock.
    """
    try:
        handle = open_regular(lock_of(log), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.EINVAL)
    try:
        # Shared, so that two readers do not take each other for a writer.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
