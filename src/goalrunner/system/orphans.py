"""Ending the children of a runner that was killed: `python -m goalrunner.system.orphans TOKEN PID:LIMIT...`.

The watchdog runs it after the runner has ended.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from signal import SIGKILL

from goalrunner.system import process_table
from goalrunner.system.process_table import send_signal

_PATIENCE = 10.0
"""Seconds after which a process that does not react to SIGKILL is given up."""


def end_orphans(token: str, launches: Sequence[tuple[int, int]]) -> None:
    """Kill every process with that token, and those of `launches` (pid and resource limit) with their descendants."""
    sessions = {pid for pid, _ in launches}
    limits = {limit for _, limit in launches if limit}
    deadline = time.monotonic() + _PATIENCE
    quiet = 0
    # Two looks without a result: the second sees what was being forked during the first.
    while quiet < 2 and time.monotonic() < deadline:
        found = process_table.family(
            one.pid
            for one in process_table.all_processes()
            if one.living and one.pid != os.getpid() and _is_ours(one, token, sessions, limits)
        )
        for pid in found:
            send_signal(pid, SIGKILL)
        quiet = 0 if any(one.living for one in found.values()) else quiet + 1
        time.sleep(0.01)


def _is_ours(one: process_table.Process, token: str, sessions: set[int], limits: set[int]) -> bool:
    if one.session in sessions or one.group in sessions or process_table.has_token(one.pid, token):
        return True
    # Two runners on one machine may choose the same limit; a process with another's token is another's.
    return any(process_table.has_limit(one.pid, limit) for limit in limits) and not process_table.is_marked(one.pid)


if __name__ == "__main__":
    _launches = [one.partition(":") for one in sys.argv[2:]]
    end_orphans(sys.argv[1], [(int(pid), int(limit)) for pid, _, limit in _launches])
