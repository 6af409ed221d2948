"""Processes without a parent: the runner becomes their parent, and a watchdog process ends those of a killed runner."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from signal import SIGKILL
from types import MappingProxyType

import goalrunner
from goalrunner.system import process_table
from goalrunner.system.process_table import VARIABLE, send_signal, starting

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


_SCRIPT = """\
trap '' HUP INT QUIT TERM PIPE
while read -r line; do running=$line; done
[ -n "$running" ] || exit 0
for one in $running; do kill -9 "-${one%%:*}" 2>/dev/null; done
exec "$@" $running
"""

_NEEDED = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", VARIABLE)
"""The environment variables that Python and git need to start, and the tokens of outer launches."""


class Watchdog:
    """Tracks the running launches in a watchdog process, which is started before the first of them."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        """Part of the tag of every launch."""
        self._running: dict[int, int] = {}
        self._lock = threading.RLock()
        self._sink: int | None = None
        """The end of the pipe to the watchdog process; None if it is not running."""
        self._release: Callable[[], object] = lambda: None

    def watch(self) -> None:
        """Start the watchdog process if it is not running."""
        with self._lock:
            if self._sink is None:
                cleanup = [sys.executable, "-P", "-m", "goalrunner.system.watchdog", self.token]
                # Without a watchdog the run goes on: it matters only if the runner is killed.
                with contextlib.suppress(OSError):
                    process, self._sink = start_helper(_SCRIPT, cleanup)
                    os.set_blocking(self._sink, False)
                    self._release = weakref.finalize(self, _end_watchdog, process, self._sink)

    def began(self, pid: int, limit: int) -> None:
        """Note a launch: its process, and the resource limit (0: none) that tags it."""
        with self._lock:
            self._running[pid] = limit
            self._send()

    def ended(self, pid: int) -> None:
        """Note that a launch has ended."""
        with self._lock:
            self._running.pop(pid, None)
            self._send()

    def close(self) -> None:
        """End the watchdog process. Closing twice does nothing; the next launch starts another."""
        with self._lock:
            self._release()
            self._sink = None

    def _send(self) -> None:
        for _ in range(2 if self._sink is not None or self._running else 0):
            self.watch()
            try:
                if self._sink is not None:
                    _write(self._sink, " ".join(f"{pid}:{limit}" for pid, limit in self._running.items()))
                return
            except BrokenPipeError:
                self.close()  # it was killed: start another


def _write(sink: int, line: str) -> None:
    with contextlib.suppress(BlockingIOError):  # it is stopped, and still has the previous list
        os.write(sink, f"{line}\n".encode())


def _end_watchdog(process: subprocess.Popen[bytes], sink: int) -> None:
    with contextlib.suppress(OSError):
        _write(sink, "")  # nothing runs
    end_helper(process, sink)


def start_helper(
    script: str, argv: Sequence[str], *, log: int = subprocess.DEVNULL, keep_open: Sequence[int] = ()
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a shell script with arguments in a process group of its own; return it and the end of its pipe to write to.

    The pipe closes when this process ends. `keep_open` are files that the script has open as well. Raise OSError.
    """
    # A small environment without keys, in which Python finds the same modules as here.
    installed = (path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    environment = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(goalrunner.__file__).parents[1]), *installed])
    source, sink = os.pipe()
    try:
        with starting:
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


_PATIENCE = 10.0  # seconds after which a process that does not react to SIGKILL is given up


def end_orphans(token: str, launches: Mapping[int, int] = MappingProxyType({})) -> None:
    """Kill every process with that token, and those of `launches` (pid and resource limit), with their descendants."""
    deadline = time.monotonic() + _PATIENCE
    quiet = 0
    # Two looks without a result: the second sees what was being forked during the first.
    while quiet < 2 and time.monotonic() < deadline:
        found = process_table.family(
            one.pid
            for one in process_table.all_processes()
            if one.living
            and one.pid != os.getpid()
            and (
                not launches.keys().isdisjoint((one.session, one.group))
                or process_table.has_token(one.pid, token)
                or process_table.has_limit(one.pid, *launches.values())
            )
        )
        for pid in found:
            send_signal(pid, SIGKILL)
        quiet = 0 if any(one.living for one in found.values()) else quiet + 1
        time.sleep(0.01)


if __name__ == "__main__":
    _launches = (one.partition(":") for one in sys.argv[2:])
    end_orphans(sys.argv[1], {int(pid): int(limit) for pid, _, limit in _launches})
