"""Ending the children of a runner that was killed: `python -m goalrunner.system.orphans TOKEN PID:LIMIT...`.

The watchdog runs it after the runner has ended.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence
from signal import SIGKILL

from goalrunner.system import process_table

PATIENCE = 10.0
"""Seconds after which a process that does not even die of SIGKILL is given up."""


def end_orphans(token: str, launches: Sequence[tuple[int, int]]) -> None:
    """Kill whoever carries the token, belongs to the session or group of a launch, bears its limit, or stems from one."""
    sessions = {pid for pid, _ in launches}
    limits = {limit for _, limit in launches if limit}
    deadline = time.monotonic() + PATIENCE
    quiet = 0
    # Twice nobody: who was being forked during the first look is seen by the second.
    while quiet < 2 and time.monotonic() < deadline:
        found = process_table.family(
            one.pid
            for one in process_table.everybody()
            if one.living and one.pid != os.getpid() and _is_ours(one, token, sessions, limits)
        )
        for one in found.values():
            with contextlib.suppress(OSError):
                os.kill(one.pid, SIGKILL)
        quiet = 0 if any(one.living for one in found.values()) else quiet + 1
        time.sleep(0.01)


def _is_ours(one: process_table.Entry, token: str, sessions: set[int], limits: set[int]) -> bool:
    if one.session in sessions or one.group in sessions or process_table.has_token(one.pid, token):
        return True
    # Limits are few enough to be met twice on one machine; a mark of somebody else's settles it.
    return any(process_table.has_limit(one.pid, limit) for limit in limits) and not process_table.is_marked(one.pid)


def main(arguments: Sequence[str]) -> None:
    """Parse what the guardian gives."""
    token, *running = arguments
    launches = [(int(pid), int(limit)) for pid, _, limit in (one.partition(":") for one in running)]
    end_orphans(token, launches)


if __name__ == "__main__":
    main(sys.argv[1:])
