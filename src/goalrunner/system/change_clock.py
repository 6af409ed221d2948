"""The clock of file times, from which the kernel takes the time of a change (ctime)."""

from __future__ import annotations

import time

# CLOCK_REALTIME_COARSE of Linux. It advances every few milliseconds only, so a time of
# the exact clock can be later than the ctime of a later change.
_COARSE_CLOCK = 5
_POLL = 0.001


def change_time() -> int:
    """Return a time in nanoseconds that no later change's ctime precedes."""
    try:
        return time.clock_gettime_ns(_COARSE_CLOCK)
    except (AttributeError, OSError):
        return time.time_ns()


class ChangeClock:
    """Gives times that lie after all earlier changes of files.

    No change after the call has an earlier time.
    """

    def __init__(self) -> None:
        self._last_noted = 0

    def note(self) -> int:
        """Note that files may have changed until now; return the time."""
        self._last_noted = time.time_ns()
        return self._last_noted

    def after_changes(self) -> int:
        """Return a time after all noted changes.

        It waits a few milliseconds if the last one was noted just before.
        """
        while (now := change_time()) <= self._last_noted:
            time.sleep(_POLL)
        return now
