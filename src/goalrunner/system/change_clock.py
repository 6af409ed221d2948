"""The clock of file times: the kernel takes the time of a change (ctime) from it."""

from __future__ import annotations

import time

_COARSE_CLOCK = 5
"""CLOCK_REALTIME_COARSE of Linux, from which the kernel takes the time of a change. It advances every few milliseconds."""


def change_time() -> int:
    """Return a time in nanoseconds: what changes from now on has this ctime or a later one."""
    try:
        return time.clock_gettime_ns(_COARSE_CLOCK)
    except (AttributeError, OSError):
        return time.time_ns()


class ChangeClock:
    """Gives times that lie after all earlier changes of files, and not after any later one."""

    def __init__(self) -> None:
        self._noted = 0

    def note(self) -> int:
        """Note that files may have changed until now; return the time."""
        self._noted = time.time_ns()
        return self._noted

    def after_changes(self) -> int:
        """Return a time after all noted changes. It waits a few milliseconds if the last one was noted just before."""
        while (now := change_time()) <= self._noted:
            time.sleep(0.001)
        return now
