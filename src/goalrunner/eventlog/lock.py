"""One writer for each log. Owns the lock file beside it, which names the writer; the system drops it with the process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from pathlib import Path

from goalrunner.errors import RecordError


class LogInUse(RecordError):
    """Another process writes this log: `owner` says which."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.owner = owner
        super().__init__(f"{folder} is in use: {owner} is writing it", "wait for it to end")


class WriterLock:
    """Held from creation to `close`. Raises LogInUse naming the owner when another writer holds it, and RecordError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise RecordError(f"cannot open {path}: {error.strerror}", "check GOAL_HOME and its permissions") from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._handle)
            raise LogInUse(path.parent, owner(path)) from error
        with contextlib.suppress(OSError):  # the name is for people; the lock holds without it
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)

    def close(self) -> None:
        """Let the next writer in; closing twice does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def owner(path: Path) -> str:
    """Who holds, or held, the lock, in words."""
    try:
        data = json.loads(path.read_bytes())
        return f"process {data['pid']} on {data['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def is_written(log: Path) -> bool:
    """Whether a process is writing that log now. One whose lock cannot be looked at counts as written."""
    try:
        handle = os.open(lock_of(log), os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def lock_of(log: Path) -> Path:
    """The lock file of a log."""
    return log.with_suffix(".lock")
