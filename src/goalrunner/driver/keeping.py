"""What processes wrote, taken into the artifacts. Owns the patience: nobody whose time is over waits for all of it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from goalrunner.model.observation import ArtifactRef
from goalrunner.ports import Artifacts

_SMALL = 4_000_000
"""Bytes of an output that are kept in no time."""


class Keeping:
    """Keeps files one after another, large ones in a thread, so that a deadline is seen meanwhile.

    Once the task is cancelled, of what is not kept yet the two ends are, which takes no time either. The cancellation is
    put off until `settle`, so that whoever keeps can still write down what there is.
    """

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts
        self._hurried = threading.Event()
        self._cut: asyncio.CancelledError | None = None
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            self._hurried.set()

    async def adopt(self, path: Path) -> ArtifactRef | None:
        """Keep a file's content and remove the file; None for one that is empty or not there. Raises RecordError."""
        try:
            size = path.stat().st_size
        except OSError:
            return None
        if not size:
            path.unlink(missing_ok=True)
            return None
        return await self.take(path)

    async def take(self, path: Path) -> ArtifactRef:
        """The same for an output that has to be there, if only empty. Raises RecordError, also for one that is not."""
        if not path.exists() or path.stat().st_size < _SMALL:
            return self._artifacts.adopt(path)
        keeping = asyncio.ensure_future(asyncio.to_thread(self._artifacts.adopt, path, self._hurried.is_set))
        while not keeping.done():
            try:
                await asyncio.wait((keeping,))
            except asyncio.CancelledError as cut:
                self._cut = cut
                self._hurried.set()
        return keeping.result()

    def settle(self) -> None:
        """All is written down. Raises CancelledError where that came meanwhile."""
        if self._cut is not None:
            raise self._cut
