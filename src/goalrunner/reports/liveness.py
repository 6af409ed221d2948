"""Whether the process of a run is still there. Owns that question alone; ends and changes nothing."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from pathlib import Path

_CLOCK_SLACK = 2.0
"""Seconds by which boot time and wall clock may disagree."""


def is_gone(pid: int, seen_at: str) -> bool:
    """True when no process has that id, or the one that has it began after `seen_at` (ISO 8601): ids are used again."""
    if pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    began = _began(pid)
    try:
        return began is not None and began > datetime.fromisoformat(seen_at).timestamp() + _CLOCK_SLACK
    except ValueError:
        return False


def _began(pid: int) -> float | None:
    """When a process began, in seconds since 1970; None where the system does not say."""
    if sys.platform != "linux":
        return None
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return int(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None
