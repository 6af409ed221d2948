"""Outputs in a run's folder: files of validators and agents, and tracebacks."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from goalrunner.core.agent_ports import Recorded
from goalrunner.core.errors import one_line
from goalrunner.core.observation import ArtifactRef, Observation
from goalrunner.core.record_ports import Artifacts

SHOWN_BYTES = 100_000
"""Bytes of each end of an output that can be read back. No model is shown more."""


class OutputStore:
    """Stores output files, even while the task is being cancelled.

    After a cancellation, only both ends of the remaining files are stored. It is raised
    by `raise_cancellation`.
    """

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts
        self._hurried = threading.Event()
        self._cancellation: asyncio.CancelledError | None = None
        # The task may be at its end after a cancellation already.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            self._hurried.set()

    async def take_if_any(self, path: Path) -> ArtifactRef | None:
        """Store a file and remove it; return None if it is empty or missing.

        Raise RecordError.
        """
        if path.exists() and path.stat().st_size:
            return await self.take(path)
        path.unlink(missing_ok=True)
        return None

    async def take(self, path: Path) -> ArtifactRef:
        """Store a file and remove it. Raise RecordError, also if it is missing."""
        storing = asyncio.ensure_future(
            asyncio.to_thread(self._artifacts.adopt, path, self._hurried.is_set)
        )
        # A thread cannot be cancelled, and an output that is stored by half would be
        # missing from the evidence.
        while not storing.done():
            try:
                await asyncio.wait((storing,))
            except asyncio.CancelledError as error:
                self._cancellation = error
                self._hurried.set()
        return storing.result()

    def raise_cancellation(self) -> None:
        """Raise the CancelledError that was deferred, if there is one."""
        if self._cancellation is not None:
            raise self._cancellation


def recorded(observation: Observation, artifacts: Artifacts) -> Recorded:
    """Return an observation with both ends of its output."""
    ref = observation.output
    if ref is None:
        return Recorded(observation, b"", b"", omitted=0)
    head, tail = artifacts.ends(ref, SHOWN_BYTES)
    return Recorded(observation, head, tail, omitted=ref.size - len(head) - len(tail))


def store_traceback(store: Callable[[str], str], redact: Callable[[str], str]) -> str:
    """Store the traceback of the current exception by `store`.

    Return the exception in one line, and where the traceback is.
    """
    error = sys.exc_info()[1]
    # The last line of a traceback may be a note that a framework added.
    problem = one_line(redact(f"{type(error).__name__}: {error}"), 500)
    text = redact(traceback.format_exc())
    return f"{problem}\n{store(text)}"
