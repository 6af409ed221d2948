"""The process table of the system, and the tag by which the processes of one launch are recognised."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from signal import Signals

import psutil

VARIABLE = "GOALRUNNER_LAUNCH"
"""The environment variable with the tokens of all launches that a process descends from, outermost first, joined by colons."""

starting = threading.Lock()  # held while a process is started, so that only those of launches get the limit below
_SPREAD = 400_000


def tagged(env: Mapping[str, str], *tokens: str) -> dict[str, str]:
    """Return `env` with tokens added to those of outer launches."""
    return {**env, VARIABLE: ":".join(filter(None, (env.get(VARIABLE), *tokens)))}


@contextmanager
def lowered_limit() -> Iterator[int]:
    """Lower a resource limit that no program uses, as a tag of children started in this context, also without environment.

    The value is the soft limit of POSIX message queues in bytes, or 0 where it cannot be lowered.
    """
    with starting, contextlib.ExitStack() as undo:
        lowered = 0
        if sys.platform == "linux":
            import resource

            soft, hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
            highest = soft if soft != resource.RLIM_INFINITY else 4 * _SPREAD
            if highest >= 2 * _SPREAD:
                lowered = highest - 1 - secrets.randbelow(_SPREAD)
                resource.setrlimit(resource.RLIMIT_MSGQUEUE, (lowered, hard))
                undo.callback(resource.setrlimit, resource.RLIMIT_MSGQUEUE, (soft, hard))
        yield lowered


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
        found = psutil.Process(pid)
        with found.oneshot():
            living = found.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
            return Process(pid, found.ppid(), os.getpgid(pid), os.getsid(pid), found.name(), living)
    return None


def children(pid: int, *, recursive: bool = False) -> list[int]:
    """Return the ids of the children of a process, or of all its descendants, parents first."""
    with contextlib.suppress(psutil.Error):
        return [one.pid for one in psutil.Process(pid).children(recursive=recursive)]
    return []


def all_processes() -> Iterator[Process]:
    """Yield every process that this user can see."""
    yield from filter(None, map(entry, psutil.pids()))


def command_lines() -> Iterator[tuple[int, str]]:
    """Yield the id of every process that this user can see, and its arguments, each with a null character at its end."""
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            yield pid, "".join(f"{word}\0" for word in psutil.Process(pid).cmdline())


def family(roots: Iterable[int]) -> dict[int, Process]:
    """Return the processes `roots` and their descendants by id, zombies included."""
    pids = dict.fromkeys(pid for root in roots for pid in (root, *children(root, recursive=True)))
    return {one.pid: one for one in map(entry, pids) if one is not None}


def has_token(pid: int, token: str) -> bool:
    """Return whether the process was started with that token in its environment."""
    with contextlib.suppress(psutil.Error, OSError):
        return token in psutil.Process(pid).environ().get(VARIABLE, "").split(":")
    return False


def has_limit(pid: int, *limits: int) -> bool:
    """Return whether the process inherited one of these limits from `lowered_limit`; 0 is none."""
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError):
            return resource.prlimit(pid, resource.RLIMIT_MSGQUEUE)[0] in {limit for limit in limits if limit}
    return False


def send_signal(pid: int, number: Signals) -> None:
    """Send a signal to a process that may have ended or belong to another user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
