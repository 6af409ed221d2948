"""The process table of the system, and the tags by which the processes of one launch are recognised."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from signal import Signals

VARIABLE = "GOALRUNNER_LAUNCH"
"""The environment variable with the tokens of all launches that a process descends from, outermost first, joined by colons."""

_SPREAD = 400_000
_starting = threading.Lock()
_proc = Path("/proc/self/stat").exists()
"""Whether /proc is there. psutil takes its place elsewhere; on Linux it is some hundred times slower than these reads."""


@dataclass(frozen=True)
class ProcessTag:
    """The tag of one launch: `token` is its own, `guard` is shared by all launches of one watchdog."""

    token: str = field(default_factory=lambda: secrets.token_hex(8))
    guard: str = ""

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return `env` with the tokens added to those of outer launches."""
        tokens = [token for token in (env.get(VARIABLE, ""), self.guard, self.token) if token]
        return {**env, VARIABLE: ":".join(tokens)} if tokens else dict(env)


@contextmanager
def unmarked() -> Iterator[None]:
    """Start a process inside of this context without the resource limit of a launch."""
    with _starting:
        yield


@contextmanager
def lowered_limit() -> Iterator[int]:
    """Lower a resource limit that no program uses, as a tag of children started in this context.

    The value is the limit, in bytes of POSIX message queues, or 0 where the limit cannot be lowered. Unlike the
    environment variable, a process cannot remove it.
    """
    if sys.platform == "linux":
        import resource

        with _starting:
            soft, hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
            highest = soft if soft != resource.RLIM_INFINITY else 4 * _SPREAD
            if highest < 2 * _SPREAD:
                yield 0
                return
            lowered = highest - 1 - secrets.randbelow(_SPREAD)
            resource.setrlimit(resource.RLIMIT_MSGQUEUE, (lowered, hard))
            try:
                yield lowered
            finally:
                resource.setrlimit(resource.RLIMIT_MSGQUEUE, (soft, hard))
    else:
        yield 0


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
        return _entry_of_psutil(pid)
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    name, _, rest = stat.rpartition(b")")
    state, parent, group, session = rest.split(None, 4)[:4]
    return Process(
        pid=pid,
        parent=int(parent),
        group=int(group),
        session=int(session),
        name=name.partition(b"(")[2].decode("utf-8", "replace"),
        living=state not in (b"Z", b"X"),
    )


def _entry_of_psutil(pid: int) -> Process | None:
    import psutil

    try:
        found = psutil.Process(pid)
        living = found.status() != psutil.STATUS_ZOMBIE
        return Process(pid, found.ppid(), os.getpgid(pid), os.getsid(pid), found.name(), living)
    except (psutil.Error, OSError):
        return None


def children(pid: int) -> list[int]:
    """Return the ids of the children of a process."""
    tasks = f"/proc/{pid}/task"
    if not _proc or not _lists_children():
        return [other.pid for other in all_processes() if other.parent == pid]
    return [int(word) for task in _names(tasks) for word in _read(f"{tasks}/{task}/children").split()]


@cache
def _lists_children() -> bool:
    """Return whether the kernel keeps lists of children; without them the whole table is read."""
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110


def all_processes() -> Iterable[Process]:
    """Yield every process that this user can see."""
    if _proc:
        pids = [int(name) for name in _names("/proc") if name.isdigit()]
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
        if pid in found or (one := entry(pid)) is None:
            continue
        found[pid] = one
        waiting.extend(children(pid))
    return found


def has_token(pid: int, token: str) -> bool:
    """Return whether the process was started with that token in its environment."""
    return token.encode() in _tokens(pid)


def has_variable(pid: int, name: str, value: str) -> bool:
    """Return whether the process was started with that environment variable."""
    return f"{name}={value}".encode() in _environment(pid)


def is_fork_of(pid: int, parent: int) -> bool:
    """Return whether the process is a copy of `parent` that has not started a program of its own yet (Linux)."""
    return (stack := _stack(pid)) != b"0" and stack == _stack(parent)


def is_marked(pid: int) -> bool:
    """Return whether the process has the tag of any launch."""
    return bool(_tokens(pid))


def has_limit(pid: int, limit: int) -> bool:
    """Return whether the process inherited that soft limit of POSIX message queues, in bytes (Linux)."""
    _, _, line = _read(f"/proc/{pid}/limits").partition(b"Max msgqueue size")
    words = line.split(None, 1)
    return bool(words) and words[0] == str(limit).encode()


def send_signal(pid: int, number: Signals) -> None:
    """Send a signal to a process that may have ended or belong to another user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _stack(pid: int) -> bytes:
    """Return the address at which the stack begins: it differs between programs."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return fields[25] if len(fields) > 25 else b"0"


def _tokens(pid: int) -> list[bytes]:
    prefix = f"{VARIABLE}=".encode()
    return [
        token
        for variable in _environment(pid)
        if variable.startswith(prefix)
        for token in variable[len(prefix) :].split(b":")
    ]


def _environment(pid: int) -> list[bytes]:
    if _proc:
        return _read(f"/proc/{pid}/environ").split(b"\0")
    import psutil

    try:
        return [os.fsencode(f"{name}={value}") for name, value in psutil.Process(pid).environ().items()]
    except (psutil.Error, OSError):
        return []


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - half the cost of a Path for each entry
    except OSError:
        return []


def _read(path: str) -> bytes:
    """Return a file of /proc, empty if its process has ended or belongs to another user."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return file.readall()
    except OSError:
        return b""
