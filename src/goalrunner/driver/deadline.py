"""The time limit of a run in this process. It stands still while a person takes their time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager


class Deadline:
    """One timeout after the other. `paused` stops the clock of the log for as long."""

    def __init__(self, paused: Callable[[], AbstractContextManager[None]]) -> None:
        self._paused = paused
        self._timeout: asyncio.Timeout | None = None

    def begin(self, seconds: float | None) -> asyncio.Timeout:
        """The timeout to work under; None: no limit."""
        self._timeout = asyncio.timeout(seconds)
        return self._timeout

    @contextmanager
    def standing(self) -> Iterator[None]:
        """The time in it counts for nothing."""
        timeout = self._timeout
        until = timeout.when() if timeout is not None and not timeout.expired() else None
        if timeout is None or until is None:
            with self._paused():
                yield
            return
        loop = asyncio.get_running_loop()
        left = until - loop.time()
        timeout.reschedule(None)
        try:
            with self._paused():
                yield
        finally:
            timeout.reschedule(loop.time() + left)
