"""The process table of the system, and the tag by which the processes of one launch are recognised."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

VARIABLE = "GOALRUNNER_LAUNCH"
"""The environment variable with the tokens of all launches that a process descends from, outermost first, joined by colons."""

_proc = Path("/proc/self/stat").exists()
"""Whether /proc is there. psutil takes its place elsewhere; on Linux it is some hundred times slower than these reads."""
_lists_children = Path("/proc/thread-self/children").exists()
"""Whether the kernel keeps lists of children; without them the whole table is read."""


def tagged(env: Mapping[str, str], *tokens: str) -> dict[str, str]:
    """Return `env` with tokens added to those of outer launches."""
    return {**env, VARIABLE: ":".join(filter(None, (env.get(VARIABLE), *tokens)))}


starting = threading.Lock()  # held while a process is started, so that only those of launches get the limit below
_SPREAD = 400_000


@contextmanager
def lowered_limit() -> Iterator[int]:
    """Lower a resource limit that no program uses, as a tag of children started in this context; it cannot be removed.

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
    if not _proc:
        import psutil

        with contextlib.suppress(psutil.Error, OSError):
            found = psutil.Process(pid)
            living = found.status() != psutil.STATUS_ZOMBIE
            return Process(pid, found.ppid(), os.getpgid(pid), os.getsid(pid), found.name(), living)
        return None
    start, _, rest = _read(f"/proc/{pid}/stat").rpartition(b")")
    if not rest:
        return None
    state, parent, group, session = rest.split(None, 4)[:4]
    name = start.partition(b"(")[2].decode("utf-8", "replace")
    return Process(pid, int(parent), int(group), int(session), name, living=state not in (b"Z", b"X"))


def children(pid: int) -> list[int]:
    """Return the ids of the children of a process."""
    if not (_proc and _lists_children):
        return [other.pid for other in all_processes() if other.parent == pid]
    tasks = f"/proc/{pid}/task"
    try:
        names = os.listdir(tasks)  # noqa: PTH208 - half the cost of a Path for each entry
    except OSError:
        return []
    return [int(word) for task in names for word in _read(f"{tasks}/{task}/children").split()]


def all_processes() -> Iterable[Process]:
    """Yield every process that this user can see."""
    if _proc:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    else:
        import psutil

        pids = psutil.pids()
    return (found for pid in pids if (found := entry(pid)) is not None)


def command_lines() -> Iterator[tuple[int, str]]:
    """Yield the id of every process that this user can see, and its arguments, each with a null character at its end."""
    for one in all_processes():
        if _proc:
            yield one.pid, os.fsdecode(_read(f"/proc/{one.pid}/cmdline"))
        else:
            import psutil

            with contextlib.suppress(psutil.Error, OSError):
                yield one.pid, "".join(f"{word}\0" for word in psutil.Process(one.pid).cmdline())


def family(roots: Iterable[int]) -> dict[int, Process]:
    """Return the processes `roots` and their descendants by id, parents first, zombies included."""
    found: dict[int, Process] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop(0)
        if pid not in found and (one := entry(pid)) is not None:
            found[pid] = one
            waiting.extend(children(pid))
    return found


def has_token(pid: int, token: str) -> bool:
    """Return whether the process was started with that token in its environment."""
    if _proc:
        variables = _read(f"/proc/{pid}/environ").split(b"\0")
        value = next((one for one in variables if one.startswith(f"{VARIABLE}=".encode())), b"").decode(
            errors="replace"
        )
        return token in re.split("[=:]", value)
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        return token in psutil.Process(pid).environ().get(VARIABLE, "").split(":")
    return False


def has_limit(pid: int, *limits: int) -> bool:
    """Return whether the process inherited one of these limits from `lowered_limit`; 0 is none."""
    words = _read(f"/proc/{pid}/limits").partition(b"Max msgqueue size")[2].split(None, 1)
    return bool(words) and words[0] in {str(limit).encode() for limit in limits if limit}


def send_signal(pid: int, number: Signals) -> None:
    """Send a signal to a process that may have ended or belong to another user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _read(path: str) -> bytes:
    """Return a file of /proc, empty if its process has ended or belongs to another user."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return file.readall()
    except OSError:
        return b""
