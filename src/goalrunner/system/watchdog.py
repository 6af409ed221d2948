"""A small process that ends our children if the runner is killed."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
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

_NEEDED = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", VARIABLE)
"""Of the environment: what a Python needs to start, and the marks of the launches that this program stems from."""


class Guardian:
    """Knows which launches run, and lets a process watch over them. Nothing is started before the first of them."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        """In the mark of every launch that it guards."""
        self._running: dict[int, int] = {}
        self._lock = threading.Lock()
        self._watcher: _Watcher | None = None
        self._release: Callable[[], object] = _nothing

    def watch(self) -> None:
        """Have the process ready before something is started."""
        with self._lock:
            self._ensure()

    def began(self, pid: int, limit: int) -> None:
        """A launch runs: its leader, and the resource limit that marks it (0: none)."""
        with self._lock:
            self._running[pid] = limit
            self._tell()

    def ended(self, pid: int) -> None:
        """A launch is over; to be called before its leader is reaped, while nobody else can have its id."""
        with self._lock:
            self._running.pop(pid, None)
            self._tell()

    def close(self) -> None:
        """Let the process go; closing twice does nothing. The next launch starts another."""
        with self._lock:
            self._release()
            self._watcher = None

    def _ensure(self) -> None:
        if self._watcher is None:
            # Without a guardian a run is as good as with one, as long as nobody kills it.
            with contextlib.suppress(OSError):
                self._watcher = _Watcher(self.token)
                self._release = weakref.finalize(self, self._watcher.close)

    def _tell(self) -> None:
        if self._watcher is None and not self._running:
            return
        for _ in range(2):
            self._ensure()
            if self._watcher is None or self._watcher.tell(self._running):
                return
            # Somebody has killed it: another takes its place.
            self._release()
            self._watcher = None


class _Watcher:
    """The process itself, and the writing end of its pipe."""

    def __init__(self, token: str) -> None:
        source, self._sink = os.pipe()
        try:
            sweep = [sys.executable, "-P", "-m", "goalrunner.system.orphans", token]
            with unmarked():
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _SCRIPT, "goal-guardian", *sweep],
                    stdin=source,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env=as_helper(_environment()),
                    start_new_session=True,
                )
        except BaseException:
            os.close(self._sink)
            raise
        finally:
            os.close(source)
        os.set_blocking(self._sink, False)

    def tell(self, running: dict[int, int]) -> bool:
        """Say what runs now; False where nobody listens any more."""
        line = " ".join(f"{pid}:{limit}" for pid, limit in running.items())
        try:
            os.write(self._sink, f"{line}\n".encode())
        except BlockingIOError:  # it was stopped, and still knows what ran before
            return True
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Tell it that nothing runs, and see it go."""
        self.tell({})
        os.close(self._sink)
        try:
            self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


def _nothing() -> None:
    """There is nothing to release."""


def _environment() -> dict[str, str]:
    """Little, and no key of a model; modules are found where we have found them."""
    kept = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    installed = (path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    return {**kept, "PYTHONPATH": os.pathsep.join([str(Path(goalrunner.__file__).parents[1]), *installed])}
