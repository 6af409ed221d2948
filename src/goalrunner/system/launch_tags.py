"""Tags that identify the processes of a launch, whatever their parents are.

One tag is a token in an environment variable. A process can clear its environment, so
another one is a resource limit that no program uses: the bytes of POSIX message queues.
Each launcher has numbers of its own, of which its watchdog has the first, and each
launch one of the others.
"""

from __future__ import annotations

import contextlib
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
