"""The end of a turn in which an external agent is silent.

It is silent if it prints nothing, runs no tool, and its processes are idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.activity import AgentSilent, report_activity
from goalrunner.core.errors import TurnCut, span

# There are this many looks at an agent within its limit, with at most so many seconds
# between them.
_LOOKS = 10
_LONGEST_PAUSE = 5.0
# The share of a processor that a working process uses; an event loop that waits uses
# less.
_BUSY = 0.03
# Seconds of processor time that two looks can tell apart: Linux counts in hundredths.
_LEAST = 0.02
# The share of the limit after which people see the silence.
_REPORTED = 0.25


@dataclass(frozen=True)
class LifeSigns:
    """What shows that an agent works."""

    written: Callable[[], int]
    """Bytes of output so far, messages of progress on stderr included."""
    processor_time: Callable[[], float]
    """Seconds that its processes have used so far, with those that have ended."""
    is_waiting: Callable[[], bool]
    """Whether a tool call is open, or a person is asked. Then silence is normal."""


def written_to(*files: Path) -> int:
    """Return the bytes of files together; a missing one has none."""
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size
    return total


@asynccontextmanager
async def watched(limit: float | None, signs: LifeSigns) -> AsyncIterator[None]:
    """Return a context for a turn.

    Raise TurnCut in it if there is no sign of life for `limit` seconds; None: no limit.
    """
    if limit is None:
        yield
        return
    timeout = asyncio.timeout(None)
    try:
        async with timeout:
            watching = asyncio.ensure_future(_watch(limit, signs, timeout))
            try:
                yield
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
    except TimeoutError as error:
        if timeout.expired():
            raise TurnCut(f"no output for {span(limit)}") from error
        raise


@dataclass(frozen=True)
class _Look:
    """What one look at an agent showed."""

    at: float
    """By the clock of the event loop."""
    written: int
    processor_time: float

    @classmethod
    def now(cls, signs: LifeSigns) -> _Look:
        time = asyncio.get_running_loop().time()
        return cls(time, signs.written(), signs.processor_time())

    def shows_work(self, earlier: _Look) -> bool:
        """Return whether the agent has worked since an earlier look."""
        used = self.processor_time - earlier.processor_time
        is_busy = used >= max(_LEAST, _BUSY * (self.at - earlier.at))
        return is_busy or self.written != earlier.written


async def _watch(limit: float, signs: LifeSigns, timeout: asyncio.Timeout) -> None:
    """Look at the agent repeatedly; end the turn when it has been silent too long."""
    pause = min(limit / _LOOKS, _LONGEST_PAUSE)
    silent = 0.0
    is_reported = False
    last = _Look.now(signs)
    while silent < limit:
        await asyncio.sleep(pause)
        look = _Look.now(signs)
        if signs.is_waiting() or look.shows_work(last):
            silent = 0.0
        else:
            # The runner itself may have been stopped for much longer than the pause.
            silent += min(look.at - last.at, 2 * pause)
        # After the first report, the end of the silence is reported too.
        if is_reported or silent >= _REPORTED * limit:
            is_reported = silent > 0
            report_activity(AgentSilent(silent, limit))
        last = look
    timeout.reschedule(asyncio.get_running_loop().time())
