"""One runner for each workspace. Owns the lock file in its store; the system drops the lock with the process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path

from goalrunner.errors import WorkspaceError


class Claim:
    """Held from creation to `close`. Raises WorkspaceError when another runner works in this workspace."""

    def __init__(self, lock: Path, workspace: str) -> None:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
            os.close(handle)
            raise WorkspaceError(
                f"another run works in {workspace} (process {holder or 'unknown'})",
                "wait for it to end, or give this run a workspace of its own",
            ) from error
        with contextlib.suppress(OSError):  # the number is for people; the lock holds without it
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        self._release = weakref.finalize(self, os.close, handle)

    def close(self) -> None:
        """Let the next one in; closing twice does nothing."""
        self._release()
