"""A small process that ends the children of the runner if the runner is killed."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import goalrunner
from goalrunner.system.adopted import as_helper
from goalrunner.system.process_table import VARIABLE, unmarked

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
        self._lock = threading.Lock()
        self._process: _WatchdogProcess | None = None
        self._release: Callable[[], object] = lambda: None

    def watch(self) -> None:
        """Start the watchdog process if it is not running."""
        with self._lock:
            self._ensure()

    def began(self, pid: int, limit: int) -> None:
        """Note a launch: its process, and the resource limit that tags it (0: none)."""
        with self._lock:
            self._running[pid] = limit
            self._send()

    def ended(self, pid: int) -> None:
        """Note that a launch has ended. To be called before its process is reaped, while its id cannot be reused."""
        with self._lock:
            self._running.pop(pid, None)
            self._send()

    def close(self) -> None:
        """End the watchdog process. Closing twice does nothing; the next launch starts another."""
        with self._lock:
            self._release()
            self._process = None

    def _ensure(self) -> None:
        if self._process is None:
            # Without a watchdog the run goes on: it matters only if the runner is killed.
            with contextlib.suppress(OSError):
                self._process = _WatchdogProcess(self.token)
                self._release = weakref.finalize(self, self._process.close)

    def _send(self) -> None:
        if self._process is None and not self._running:
            return
        for _ in range(2):
            self._ensure()
            if self._process is None or self._process.send(self._running):
                return
            # It was killed: start another.
            self._release()
            self._process = None


class _WatchdogProcess:
    """The process, and the writing end of its pipe."""

    def __init__(self, token: str) -> None:
        cleanup = [sys.executable, "-P", "-m", "goalrunner.system.orphans", token]
        self._process, self._sink = start_helper(_SCRIPT, cleanup)
        os.set_blocking(self._sink, False)

    def send(self, running: dict[int, int]) -> bool:
        """Send the running launches; return False if the process has ended."""
        line = " ".join(f"{pid}:{limit}" for pid, limit in running.items())
        try:
            os.write(self._sink, f"{line}\n".encode())
        except BlockingIOError:  # it is stopped, and still has the previous list
            return True
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Report that nothing runs, and wait for the process to end."""
        self.send({})
        end_helper(self._process, self._sink)


def start_helper(
    script: str, argv: Sequence[str], *, log: int = subprocess.DEVNULL, keep_open: Sequence[int] = ()
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a shell script with arguments in a session of its own; return it and the end of its pipe to write to.

    The pipe closes when this process ends. `keep_open` are files that the script has open as well. Raise OSError.
    """
    source, sink = os.pipe()
    try:
        with unmarked():
            process = subprocess.Popen(
                ["/bin/sh", "-c", script, "goal-watchdog", *argv],
                stdin=source,
                stdout=log,
                stderr=log,
                cwd="/",
                env=as_helper(_environment()),
                pass_fds=keep_open,
                start_new_session=True,
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


def _environment() -> dict[str, str]:
    """Return a small environment without keys, in which Python finds the same modules as here."""
    kept = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    installed = (path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    return {**kept, "PYTHONPATH": os.pathsep.join([str(Path(goalrunner.__file__).parents[1]), *installed])}
