"""Tags that identify the processes of a launch, whatever their parents are.

One tag is a token in an environment variable. A process can clear its environment, so
another one is a resource limit that no program uses: the bytes of POSIX message queues.
Each launcher has numbers of its own, of which its watchdog has the first, and each
launch one of the others. A process can lower its limit further, to a number that
nothing else has: it left its launch.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil

VARIABLE = "GOALRUNNER_LAUNCH"
"""The environment variable with the tokens of all launches around a process.

The outermost comes first; colons separate them.
"""

LAUNCHES = 1_000
"""Numbers of a launcher."""
_LAUNCHERS = 400

_living: dict[str, int] = {}
"""The launches of this program that have not ended: the limit of each, by its token."""

starting = threading.Lock()
"""Held while a process is started, so that only those of launches get the limit."""


def tagged(env: Mapping[str, str], *tokens: str) -> dict[str, str]:
    """Return `env` with tokens added to those of outer launches."""
    return {**env, VARIABLE: ":".join(filter(None, (env.get(VARIABLE), *tokens)))}


def has_token(pid: int, token: str) -> bool:
    """Return whether the process was started with that token in its environment."""
    with contextlib.suppress(psutil.Error, OSError):
        return token in psutil.Process(pid).environ().get(VARIABLE, "").split(":")
    return False


def free_limit() -> int:
    """Return the first limit of a launcher whose limits no living process has.

    Return 0 if there is none.
    """
    if sys.platform != "linux":
        return 0
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
    total = LAUNCHES * _LAUNCHERS
    highest = soft if soft != resource.RLIM_INFINITY else 4 * total
    # A program that does use message queues must still have half of its limit.
    if highest < 2 * total:
        return 0
    lowest = highest - total
    used_numbers = {(limit_of(pid) - lowest) // LAUNCHES for pid in psutil.pids()}
    free_numbers = sorted(set(range(_LAUNCHERS)) - used_numbers)
    if not free_numbers:
        return 0
    # By chance, because another launcher may look at the same moment.
    return lowest + LAUNCHES * secrets.choice(free_numbers)


@contextmanager
def lowered_limit(limit: int) -> Iterator[None]:
    """Give the children that are started in this context a limit.

    With 0, they have the limit of this process.
    """
    with starting, contextlib.ExitStack() as undo:
        if sys.platform == "linux" and limit:
            import resource

            before = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
            resource.setrlimit(resource.RLIMIT_MSGQUEUE, (limit, before[1]))
            undo.callback(resource.setrlimit, resource.RLIMIT_MSGQUEUE, before)
        yield


def limit_of(pid: int) -> int:
    """Return the limit of a process; -1 if it is unknown."""
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError):
            return resource.prlimit(pid, resource.RLIMIT_MSGQUEUE)[0]
    return -1


@contextmanager
def living_launch(token: str, limit: int) -> Iterator[None]:
    """Note a launch for the time of this context."""
    _living[token] = limit
    try:
        yield
    finally:
        del _living[token]


def cannot_raise(pid: int, limit: int) -> None:
    """Keep a process and its later children from having a higher limit again."""
    if sys.platform == "linux" and limit:
        import resource

        # It may have ended, or be that of another user.
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_MSGQUEUE, (limit, limit))


def has_left_launch(pid: int) -> bool:
    """Return whether a child of this program removed the tags of its launch.

    Processes that other code of this program has started have the program's own limit.
    """
    limit = limit_of(pid)
    with starting:
        own_limit = limit_of(os.getpid())
    launches = _living.copy()
    if limit in (-1, own_limit, *launches.values()):
        return False
    return not any(has_token(pid, token) for token in launches)
