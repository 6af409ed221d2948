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

    `lock` is a file in the workspace's store; it holds the process id of the runner, for messages. `workspace` is None
    for a store whose workspace is not known, or gone.
    """

    def __init__(self, workspace: Path | None, lock: Path) -> None:
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
        with contextlib.suppress(OSError):  # the number is for people; the lock holds without it
            os.ftruncate(handles[-1], 0)
            os.pwrite(handles[-1], str(os.getpid()).encode(), 0)
        self._release = weakref.finalize(self, _close, handles)

    def close(self) -> None:
        """Release the workspace; closing twice does nothing."""
        self._release()


def _lock(handle: int, workspace: Path, lock: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise WorkspaceError(
            f"another run works in {workspace} (process {_read(lock) or 'unknown'})",
            "wait for it to end (goal watch), or name another workspace: --workspace DIR",
        ) from error


def _close(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)


def _read(lock: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return lock.read_text("ascii")[:20].strip()
    return ""
