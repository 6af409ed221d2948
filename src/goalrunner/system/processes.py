"""The process table of this machine."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from signal import Signals

import psutil


@dataclass(frozen=True)
class Process:
    """One process. `living` is False for a zombie."""

    pid: int
    parent: int
    group: int
    session: int
    name: str
    living: bool


def entry(pid: int) -> Process | None:
    """Return the process with that id, or None if there is none."""
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        with process.oneshot():
            status = process.status()
            return Process(
                pid=pid,
                parent=process.ppid(),
                group=os.getpgid(pid),
                session=os.getsid(pid),
                name=process.name(),
                living=status not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD),
            )
    return None


def children(pid: int, *, recursive: bool = False) -> list[int]:
    """Return the ids of the children of a process.

    With `recursive`, they are those of all descendants, parents first.
    """
    with contextlib.suppress(psutil.Error):
        return [one.pid for one in psutil.Process(pid).children(recursive=recursive)]
    return []


def command_lines() -> Iterator[tuple[int, str]]:
    """Yield the id and the arguments of every process that this user can see.

    Each argument ends with a null character.
    """
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            yield pid, "".join(f"{word}\0" for word in psutil.Process(pid).cmdline())


def processor_time(pids: Iterable[int]) -> float:
    """Return the seconds of processor time that processes have used.

    It includes the time of their children that have ended.
    """
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.Error, OSError):
            # User and system time of the process, and both of its ended children.
            total += sum(psutil.Process(pid).cpu_times()[:4])
    return total


def family(roots: Iterable[int]) -> dict[int, Process]:
    """Return the processes `roots` and their descendants by id, zombies included."""
    pids: dict[int, None] = {}
    for root in roots:
        pids[root] = None
        pids.update(dict.fromkeys(children(root, recursive=True)))
    return {one.pid: one for one in map(entry, pids) if one is not None}


def send_signal(pid: int, number: Signals) -> None:
    """Send a signal to a process that may have ended or belong to another user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


# From <linux/prctl.h>.
_PR_SET_CHILD_SUBREAPER = 36


@cache
def adopt_orphans() -> bool:
    """Become the parent of every descendant that loses its own parent.

    Return False where the system cannot do it. Without it, a process that forks twice
    belongs to init, like any other process.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
