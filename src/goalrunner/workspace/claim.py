"""One runner for each workspace: a lock on the workspace's own folder, whatever GOAL_HOME is, and one on its store. The
system releases them with the process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path

from goalrunner.errors import WorkspaceError


class Claim:
    """Held from creation to `close`. Raise WorkspaceError if another run works in this workspace.

    `lock` is a file in the workspace's store; it holds the process id of the runner and the id of its `run`, for messages.
    `workspace` is None for a store whose workspace is not known, or gone.
    """

    def __init__(self, workspace: Path | None, lock: Path, run: str = "") -> None:
        handles: list[int] = []
        try:
            if workspace is not None:
                handles.append(os.open(workspace, os.O_RDONLY | os.O_DIRECTORY))
                _lock(handles[-1], workspace, lock)
            handles.append(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
            _lock(handles[-1], workspace or lock.parent, lock)
        except BaseException:
            _close(handles)
            raise
        with contextlib.suppress(OSError):  # the words are for people; the lock holds without them
            os.ftruncate(handles[-1], 0)
            os.pwrite(handles[-1], f"{os.getpid()} {run}".strip().encode(), 0)
        self._release = weakref.finalize(self, _close, handles)

    def close(self) -> None:
        """Release the workspace; closing twice does nothing."""
        self._release()


def refuse_claimed(workspace: Path, lock: Path) -> None:
    """Raise WorkspaceError if another run works in this workspace; `lock` is as for `Claim`. Nothing is claimed.

    A run that would be refused anyway is refused before it leaves a folder of its own.
    """
    try:
        handle = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # a workspace that cannot be read has an error of its own later
        return
    try:
        _lock(handle, workspace, lock)
    finally:
        os.close(handle)


def _lock(handle: int, workspace: Path, lock: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        process, run = _holder(lock) or (_locker(handle), "")
        name, watch = (f": {run}", f" (goal watch {run})") if run else ("", "")
        raise WorkspaceError(
            f"another run works in {workspace}{name} (process {process or 'unknown'})",
            f"wait for it to end{watch}, or name another workspace: --workspace DIR",
        ) from error


def _holder(lock: Path) -> tuple[str, str] | None:
    """Return process id and run id of the runner that holds the store's lock; None if it is free or not readable."""
    with contextlib.suppress(OSError, ValueError):
        handle = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            process, _, run = os.read(handle, 200).decode("ascii").strip().partition(" ")
            return process, run
        finally:
            os.close(handle)
    return None


def _locker(handle: int) -> str:
    """Return the id of the process that locks an open folder, as Linux lists it: a runner with another GOAL_HOME."""
    inode = str(os.fstat(handle).st_ino)
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            words = line.split()
            if "FLOCK" in words and "->" not in words and words[5].rpartition(":")[2] == inode and int(words[4]) > 0:
                return words[4]
    return ""


def _close(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)
