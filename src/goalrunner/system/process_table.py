"""The process table of the system, and the mark by which processes of one launch are known."""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

VARIABLE = "GOALRUNNER_LAUNCH"
"""Holds the tokens of all launches that a process stems from, outermost first, with colons between."""

_SPREAD = 400_000
_starting = threading.Lock()


@dataclass(frozen=True)
class Mark:
    """One launch's mark: `token` is its own, `guard` the one of all launches that a guardian watches over."""

    token: str = field(default_factory=lambda: secrets.token_hex(8))
    guard: str = ""

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return `env` with the mark added; a mark that is there already stays, so that an outer launch knows its own."""
        tokens = [token for token in (env.get(VARIABLE, ""), self.guard, self.token) if token]
        return {**env, VARIABLE: ":".join(tokens)} if tokens else dict(env)

    @classmethod
    def by_limit(cls) -> Mark:
        """Return a mark without the variable: the resource limit alone."""
        return cls(token="")


@contextmanager
def unmarked() -> Iterator[None]:
    """Start a child meanwhile that belongs to no launch: none lowers its limit."""
    with _starting:
        yield


@contextmanager
def lowered_limit() -> Iterator[int]:
    """Lower the limit for children that are started meanwhile; gives its value, or 0 where there is no such mark."""
    if sys.platform == "linux":
        import resource

        with _starting:
            soft, hard = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
            highest = soft if soft != resource.RLIM_INFINITY else 4 * _SPREAD
            if highest < 2 * _SPREAD:
                yield 0
                return
            marked = highest - 1 - secrets.randbelow(_SPREAD)
            resource.setrlimit(resource.RLIMIT_MSGQUEUE, (marked, hard))
            try:
                yield marked
            finally:
                resource.setrlimit(resource.RLIMIT_MSGQUEUE, (soft, hard))
    else:
        yield 0


@dataclass(frozen=True)
class Entry:
    """One process. `living` is False for a zombie, which only waits to be reaped."""

    pid: int
    parent: int
    group: int
    session: int
    name: str
    living: bool


def entry(pid: int) -> Entry | None:
    """The process of that id, or None when there is none."""
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    name, _, rest = stat.rpartition(b")")
    state, parent, group, session = rest.split(None, 4)[:4]
    return Entry(
        pid=pid,
        parent=int(parent),
        group=int(group),
        session=int(session),
        name=name.partition(b"(")[2].decode("utf-8", "replace"),
        living=state not in (b"Z", b"X"),
    )


def children(pid: int) -> list[int]:
    """The ids of a process's children. Where the kernel keeps no lists of them, the whole table is read."""
    if not _lists_children():
        return [other.pid for other in everybody() if other.parent == pid]
    found: list[int] = []
    tasks = f"/proc/{pid}/task"
    for task in _names(tasks):
        found.extend(map(int, _read(f"{tasks}/{task}/children").split()))
    return found


def everybody() -> Iterable[Entry]:
    """Every process that can be seen."""
    for name in _names("/proc"):
        if name.isdigit() and (found := entry(int(name))) is not None:
            yield found


def family(roots: Iterable[int]) -> dict[int, Entry]:
    """Those processes and all that stem from them, parents before children, zombies included."""
    found: dict[int, Entry] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop(0)
        if pid in found or (one := entry(pid)) is None:
            continue
        found[pid] = one
        waiting.extend(children(pid))
    return found


def has_token(pid: int, token: str) -> bool:
    """Whether the process was started with that token in its environment."""
    return token.encode() in _tokens(pid)


def has_variable(pid: int, name: str, value: str) -> bool:
    """Whether the process was started with that variable in its environment."""
    return f"{name}={value}".encode() in _read(f"/proc/{pid}/environ").split(b"\0")


def is_fork_of(pid: int, parent: int) -> bool:
    """Whether the process is a copy of `parent` that has not started a program of its own yet."""
    return (stack := _stack(pid)) != b"0" and stack == _stack(parent)


def is_marked(pid: int) -> bool:
    """Whether the process shows that it stems from any launch."""
    return bool(_tokens(pid))


def has_limit(pid: int, limit: int) -> bool:
    """Whether the process inherited that soft limit of POSIX message queues, in bytes."""
    _, _, line = _read(f"/proc/{pid}/limits").partition(b"Max msgqueue size")
    words = line.split(None, 1)
    return bool(words) and words[0] == str(limit).encode()


def _stack(pid: int) -> bytes:
    """The address at which the stack begins: another one in each program that is started."""
    _, _, rest = _read(f"/proc/{pid}/stat").rpartition(b")")
    fields = rest.split()
    return fields[25] if len(fields) > 25 else b"0"


def _tokens(pid: int) -> list[bytes]:
    prefix = f"{VARIABLE}=".encode()
    variables = _read(f"/proc/{pid}/environ").split(b"\0")
    marks = (variable[len(prefix) :] for variable in variables if variable.startswith(prefix))
    return [token for mark in marks for token in mark.split(b":")]


@cache
def _lists_children() -> bool:
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - half the price of a Path for each entry
    except OSError:
        return []


def _read(path: str) -> bytes:
    """A file of /proc in one piece; empty when its process is gone, or not ours to read."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return file.readall()
    except OSError:
        return b""
