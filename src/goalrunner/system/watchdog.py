"""The watchdog, which ends the processes of all launches if the runner is killed; and
the end of this process with the one that started it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from signal import SIGKILL, SIGTERM

import psutil

from goalrunner.system.launch_tags import (
    LAUNCHES,
    VARIABLE,
    free_limit,
    has_token,
    limit_of,
    lowered_limit,
)
from goalrunner.system.processes import family, send_signal

# Waits for a line or the end of the runner, and ends its processes in the second case.
_SCRIPT = """\
trap '' HUP INT QUIT TERM PIPE
read -r done && exit 0
exec "$@"
"""
# The environment variables that Python and git need to start, and the tokens of outer
# launches.
_NEEDED = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", VARIABLE)
# Seconds after which a process that does not react to SIGKILL is given up.
_PATIENCE = 10.0


class Watchdog:
    """A process that ends the processes of all launches if this process is killed.

    It is started before the first launch.
    """

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
        if not self._first_limit:
            return 0
        # After many launches the numbers are used again; most of those have ended.
        return self._first_limit + 1 + self._launches % (LAUNCHES - 1)

    def watch(self) -> None:
        """Start the watchdog process if it is not running."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            self._release()
            self._first_limit = self._first_limit or free_limit()
            limit = str(self._first_limit)
            cleanup = [sys.executable, "-P", "-m", __name__, self.token, limit]
            # Without a watchdog the run goes on: it matters only if the runner is
            # killed.
            with contextlib.suppress(OSError):
                self._process, sink = start_helper(
                    _SCRIPT, cleanup, limit=self._first_limit
                )
                self._release = weakref.finalize(self, _release, self._process, sink)

    def close(self) -> None:
        """End the watchdog process.

        Closing twice does nothing; the next launch starts another.
        """
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
    """Start a shell script with arguments in a process group of its own.

    Return it and the end of its pipe to write to, which closes when this process ends.
    `keep_open` are files that the script has open as well, and `limit` is that of
    `lowered_limit`. Raise OSError.
    """
    source, sink = os.pipe()
    try:
        with lowered_limit(limit):
            process = subprocess.Popen(
                ["/bin/sh", "-c", script, "goal-watchdog", *argv],
                stdin=source,
                stdout=log,
                stderr=log,
                cwd="/",
                env=_helper_environment(),
                pass_fds=keep_open,
                process_group=0,
            )
    except BaseException:
        os.close(sink)
        raise
    finally:
        os.close(source)
    return process, sink


def _helper_environment() -> dict[str, str]:
    """Return a small environment without keys.

    Python finds the same modules in it as here.
    """
    environment = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    folders = [str(Path(__file__).parents[2])]
    for path in sys.path:
        if path.endswith(("site-packages", "dist-packages")):
            folders.append(path)
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    return environment


def end_helper(process: subprocess.Popen[bytes], sink: int) -> None:
    """Close the pipe of a helper, and wait for it to end."""
    os.close(sink)
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_orphans(token: str, first_limit: int = 0) -> None:
    """Kill every process of a launcher, with their descendants.

    Its processes have the token or one of the limits of the launcher.
    """
    limits = range(first_limit, first_limit + LAUNCHES) if first_limit else range(0)
    deadline = time.monotonic() + _PATIENCE
    quiet_searches = 0
    # Two searches must find nothing: the second finds processes that were forked during
    # the first.
    while quiet_searches < 2 and time.monotonic() < deadline:
        roots = [
            pid
            for pid in psutil.pids()
            if pid != os.getpid() and (has_token(pid, token) or limit_of(pid) in limits)
        ]
        living = [pid for pid, process in family(roots).items() if process.living]
        for pid in living:
            send_signal(pid, SIGKILL)
        quiet_searches = 0 if living else quiet_searches + 1
        time.sleep(0.01)


if __name__ == "__main__":
    end_orphans(sys.argv[1], int(sys.argv[2]))


def end_with_parent(pipe: int) -> None:
    """Send SIGTERM to this process when the one that started it ends, also by kill -9.

    `pipe` is the handle of a pipe of which the parent alone holds the other end, and
    into which it writes nothing.
    """

    def wait() -> None:
        os.read(pipe, 1)
        os.kill(os.getpid(), SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
