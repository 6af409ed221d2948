"""Sessions in a folder that have ended since a command began to watch it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from goalrunner.audits.transcript_files import files_below
from goalrunner.transcripts import reason_to_skip

QUIET = 60.0
"""Seconds without a change after which a session counts as ended."""
INTERVAL = 5.0
"""Seconds between two looks at the folder."""


@dataclass(frozen=True)
class _Stamp:
    """What tells whether a file has changed."""

    size: int
    changed_ns: int


@dataclass(frozen=True)
class _Change:
    """The last change of a file that was noticed."""

    stamp: _Stamp
    noticed: float


class EndedSessions:
    """The files in a folder that were written since this object was made."""

    def __init__(self, folder: Path, quiet: float = QUIET) -> None:
        self._folder = folder
        self._quiet = quiet
        self._changes: dict[Path, _Change] = {}
        """Files that may still change."""
        self._ended = dict(_stamps(folder))

    def look(self, now: float) -> list[Path]:
        """Return the files that have not changed for `quiet` seconds, each once.

        `now` is in seconds. A session that is continued is returned again.
        """
        ended = []
        for path, stamp in _stamps(self._folder):
            if self._ended.get(path) == stamp:
                continue
            change = self._changes.get(path)
            if change is None or change.stamp != stamp:
                change = self._changes[path] = _Change(stamp, now)
            if now - change.noticed >= self._quiet:
                ended.append(path)
                self._ended[path] = stamp
                del self._changes[path]
        return ended


async def audit_ended(
    sessions: EndedSessions,
    audit: Callable[[Path], Awaitable[bool]],
    interval: float = INTERVAL,
) -> None:
    """Audit each session that ends, until `audit` returns False.

    Files that are no sessions of their own are left out. `interval` is in seconds.
    """
    while True:
        for path in sessions.look(time.monotonic()):
            if not reason_to_skip(path) and not await audit(path):
                return
        await asyncio.sleep(interval)


def _stamps(folder: Path) -> Iterator[tuple[Path, _Stamp]]:
    for path in files_below(folder):
        try:
            status = os.stat(path)  # noqa: PTH116 - the method is slower
        except OSError:
            # It was removed meanwhile.
            continue
        yield path, _Stamp(status.st_size, status.st_mtime_ns)
