"""The process table, the tags that identify the processes of a launch, and the cleanup after a killed runner."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from signal import SIGKILL, Signals

import psutil

VARIABLE = "GOALRUNNER_LAUNCH"
"""The environment variable with the tokens of all launches that a process descends from, outermost first, joined by colons."""


def tagged(env: Mapping[str, str], *tokens: str) -> dict[str, str]:
    """Return `env` with tokens added to those of outer launches."""
    return {**env, VARIABLE: ":".join(filter(None, (env.get(VARIABLE), *tokens)))}


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
            return Process(
                pid, found.ppid(), os.getpgid(pid), os.getsid(pid), found.name(), living
            )
    return None


def children(pid: int, *, recursive: bool = False) -> list[int]:
    """Return the ids of the children of a process, or of all its descendants, parents first."""
    with contextlib.suppress(psutil.Error):
        return [one.pid for one in psutil.Process(pid).children(recursive=recursive)]
    return []


def command_lines() -> Iterator[tuple[int, str]]:
    """Yield the id of every process that this user can see, and its arguments, each with a null character at its end."""
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            yield pid, "".join(f"{word}\0" for word in psutil.Process(pid).cmdline())


def processor_time(pids: Iterable[int]) -> float:
    """Return the seconds of processor time that processes have used, with their children that have ended."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.Error, OSError):
            total += sum(psutil.Process(pid).cpu_times()[:4])
    return total


def family(roots: Iterable[int]) -> dict[int, Process]:
    """Return the processes `roots` and their descendants by id, zombies included."""
    pids = dict.fromkeys(
        pid for root in roots for pid in (root, *children(root, recursive=True))
    )
    return {one.pid: one for one in map(entry, pids) if one is not None}


def has_token(pid: int, token: str) -> bool:
    """Return whether the process was started with that token in its environment."""
    with contextlib.suppress(psutil.Error, OSError):
        return token in psutil.Process(pid).environ().get(VARIABLE, "").split(":")
    return False


def send_signal(pid: int, number: Signals) -> None:
    """Send a signal to a process that may have ended or belong to another user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


_PR_SET_CHILD_SUBREAPER = 36


@cache
def adopt_orphans() -> bool:
    """Become the parent of every descendant that loses its own parent; return False where the system cannot do it.

    Without it, a process that forks twice belongs to init, like any other process.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


# A resource limit that no program uses, the bytes of POSIX message queues, is a tag that stays if a process clears its
# environment. Each launcher has numbers of its own, of which its watchdog has the first, and each launch one of the others.
_LAUNCHES = 1_000  # numbers of a launcher
_LAUNCHERS = 400

starting = (
    threading.Lock()
)  # held while a process is started, so that only those of launches get the limit


def free_limit() -> int:
    """Return the first of the limits of a launcher, which no living process has; 0 if there is none."""
    if sys.platform != "linux":
        return 0
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_MSGQUEUE)
    most = _LAUNCHES * _LAUNCHERS
    highest = soft if soft != resource.RLIM_INFINITY else 4 * most
    if highest < 2 * most:
        return 0
    lowest = highest - most
    taken = {(limit_of(pid) - lowest) // _LAUNCHES for pid in psutil.pids()}
    free = [
        lowest + _LAUNCHES * number
        for number in range(_LAUNCHERS)
        if number not in taken
    ]
    return secrets.choice(free) if free else 0


@contextmanager
def lowered_limit(limit: int) -> Iterator[None]:
    """Give the children that are started in this context a limit; 0: no other one than this process has."""
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


_SCRIPT = """\
trap '' HUP INT QUIT TERM PIPE
read -r done && exit 0
exec "$@"
"""
"""Waits for a line or the end of the runner, and ends its processes in the second case."""

_NEEDED = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", VARIABLE)
"""The environment variables that Python and git need to start, and the tokens of outer launches."""


class Watchdog:
    """A process that ends the processes of all launches if this process is killed. It is started before the first launch."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        """Part of the tag of every launch."""
        self._first_limit = 0
        self._launches = 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._release: Callable[[], object] = lambda: None

    def next_limit(self) -> int:
        """Return the limit of another launch; 0 for none."""
        self._launches += 1
        return self._first_limit and self._first_limit + 1 + self._launches % (
            _LAUNCHES - 1
        )

    def watch(self) -> None:
        """Start the watchdog process if it is not running."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._release()
                self._first_limit = self._first_limit or free_limit()
                cleanup = [
                    sys.executable,
                    "-P",
                    "-m",
                    __name__,
                    self.token,
                    str(self._first_limit),
                ]
                # Without a watchdog the run goes on: it matters only if the runner is killed.
                with contextlib.suppress(OSError):
                    self._process, sink = start_helper(
                        _SCRIPT, cleanup, limit=self._first_limit
                    )
                    self._release = weakref.finalize(
                        self, _release, self._process, sink
                    )

    def close(self) -> None:
        """End the watchdog process. Closing twice does nothing; the next launch starts another."""
        with self._lock:
            self._release()
            self._process = None


def _release(process: subprocess.Popen[bytes], sink: int) -> None:
    with contextlib.suppress(OSError):
        os.write(sink, b"done\n")
    end_helper(process, sink)


def start_helper(
    script: str,
    argv: Sequence[str],
    *,
    log: int = subprocess.DEVNULL,
    keep_open: Sequence[int] = (),
    limit: int = 0,
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a shell script with arguments in a process group of its own; return it and the end of its pipe to write to.

    The pipe closes when this process ends. `keep_open` are files that the script has open as well, and `limit` is that of
    `lowered_limit`. Raise OSError.
    """
    # A small environment without keys, in which Python finds the same modules as here.
    installed = (
        path for path in sys.path if path.endswith(("site-packages", "dist-packages"))
    )
    environment = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parents[2]), *installed]
    )
    source, sink = os.pipe()
    try:
        with lowered_limit(limit):
            process = subprocess.Popen(
                ["/bin/sh", "-c", script, "goal-watchdog", *argv],
                stdin=source,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment,
                pass_fds=keep_open,
                process_group=0,
            )
    except BaseException:
        os.close(sink)
        raise
    finally:
        os.close(source)
    return process, sink


def end_helper(process: subprocess.Popen[bytes], sink: int) -> None:
    """Close the pipe of a helper, and wait for it to end."""
    os.close(sink)
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


_PATIENCE = (
    10.0  # seconds after which a process that does not react to SIGKILL is given up
)


def end_orphans(token: str, first_limit: int = 0) -> None:
    """Kill every process with that token or one of the limits of a launcher, with their descendants."""
    limits = range(first_limit, first_limit + _LAUNCHES) if first_limit else range(0)
    deadline = time.monotonic() + _PATIENCE
    quiet = 0
    # Two searches must find nothing: the second finds processes that were forked during the first.
    while quiet < 2 and time.monotonic() < deadline:
        pids = (pid for pid in psutil.pids() if pid != os.getpid())
        found = family(
            pid for pid in pids if has_token(pid, token) or limit_of(pid) in limits
        )
        living = [pid for pid, one in found.items() if one.living]
        for pid in living:
            send_signal(pid, SIGKILL)
        quiet = 0 if living else quiet + 1
        time.sleep(0.01)


if __name__ == "__main__":
    end_orphans(sys.argv[1], int(sys.argv[2]))
