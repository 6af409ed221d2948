"""The end of a turn in which an external agent is silent: it prints nothing, runs no tool, and its processes are idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.activity import AgentSilent, report_activity
from goalrunner.core.errors import TurnCut, span

_LOOKS = 10
_LONGEST_PAUSE = 5.0
"""There are this many looks at an agent within its limit, with at most so many seconds between them."""
_BUSY = 0.03
"""The share of a processor that a working process uses; an event loop that waits uses less."""
_LEAST = 0.02
"""Seconds of processor time that two looks can tell apart."""
_SHOWN = 0.25
"""The share of the limit after which the silence is shown."""


@dataclass(frozen=True)
class LifeSigns:
    """What shows that an agent works."""

    written: Callable[[], int]
    """Bytes of output so far, messages of progress on stderr included."""
    processor_time: Callable[[], float]
    """Seconds that its processes have used so far, with those that have ended."""
    is_waiting: Callable[[], bool]
    """Whether a tool call is open, or a person is asked. The agent may be silent then."""


def written_to(*files: Path) -> int:
    """Return the bytes of files together; a missing one has none."""
    total = 0
    for file in files:
        with suppress(OSError):
            total += file.stat().st_size
    return total


@asynccontextmanager
async def watched(limit: float | None, signs: LifeSigns) -> AsyncIterator[None]:
    """Return a context for a turn. Raise TurnCut in it if there is no sign of life for `limit` seconds; None: no limit."""
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


async def _watch(limit: float, signs: LifeSigns, timeout: asyncio.Timeout) -> None:
    """Look at the agent again and again, and end the turn when it has been silent for too long."""
    loop, pause = asyncio.get_running_loop(), min(limit / _LOOKS, _LONGEST_PAUSE)
    silent, shown = 0.0, False
    at, written, used = loop.time(), signs.written(), signs.processor_time()
    while silent < limit:
        await asyncio.sleep(pause)
        now, written_now, used_now = (
            loop.time(),
            signs.written(),
            signs.processor_time(),
        )
        passed, works = now - at, used_now - used >= max(_LEAST, _BUSY * (now - at))
        if signs.is_waiting() or works or written_now != written:
            silent = 0.0
        else:
            silent += min(passed, 2 * pause)  # the runner itself may have been stopped
        if shown or silent >= _SHOWN * limit:
            shown = silent > 0
            report_activity(AgentSilent(silent, limit))
        at, written, used = now, written_now, used_now
    timeout.reschedule(loop.time())
