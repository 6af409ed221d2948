"""Starting child processes with a deadline and a limit on their output; their descendants end with them."""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH, Signals
from typing import Any

from goalrunner.core.errors import RecordError
from goalrunner.core.process_ports import Completion
from goalrunner.system.adopted import adopt_orphans
from goalrunner.system.child import ChildProcess, NotStarted, start
from goalrunner.system.process_table import ProcessTag
from goalrunner.system.termination import Termination
from goalrunner.system.watchdog import Watchdog

SHELL = "/bin/sh"
"""By its path: PATH may begin with a folder of the workspace, in which an agent can create a `sh`."""

OUTPUT_LIMIT = 256_000_000
"""Bytes of output after which a command is ended."""

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""

_POLL = 0.1
"""Seconds between two looks at the size of the output."""

_SHELL_SIGNAL = 128
"""Shells and sandboxes report a signal as this plus its number."""

_HARMLESS = frozenset({SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH})
"""Signals that end no process; 128 plus their numbers are ordinary exit codes."""


@contextmanager
def opened_sink(path: Path) -> Iterator[int]:
    """Open a new, empty output file for appending, so that two writers never overwrite each other. Raise RecordError."""
    try:
        sink = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}", "free some space, or set GOAL_HOME") from error
    try:
        yield sink
    finally:
        os.close(sink)


def describe_signal(status: int) -> str:
    """Return what ended a process with that status, such as "killed by SIGKILL"; empty if it exited."""
    return "" if status >= 0 else f"killed by {_name(-status)}"


def describe_status(status: int) -> str:
    """Return "exit 1", "exit 137: SIGKILL" for a process within a shell or sandbox, or "killed by SIGKILL"."""
    if status < 0:
        return describe_signal(status)
    number = status - _SHELL_SIGNAL
    return (
        f"exit {status}: {_name(number)}"
        if 0 < number <= max(Signals) and number not in _HARMLESS
        else f"exit {status}"
    )


def _name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class ProcessLauncher:
    """The port `Launcher` on this machine. `output_limit` in bytes, `grace` in seconds.

    `marked` False leaves out the environment variable that tags its processes, where something else ends all of them.
    Its processes end with this program, even if the program is killed.
    """

    output_limit: int = OUTPUT_LIMIT
    grace: float = GRACE
    marked: bool = True
    watchdog: Watchdog = field(default_factory=Watchdog, repr=False, compare=False)

    def close(self) -> None:
        """End the watchdog."""
        self.watchdog.close()

    async def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: Path,
        timeout: float | None = None,
        stdin: bytes | None = None,
        errors: Path | None = None,
        shared: Sequence[Path] = (),
    ) -> Completion:
        """See `goalrunner.core.process_ports.Launcher`. Raise RecordError if `output` or `errors` cannot be written."""
        adopt_orphans()
        began = time.monotonic()
        tag = ProcessTag(guard=self.watchdog.token) if self.marked else ProcessTag(token="")
        self.watchdog.watch()
        errors_sink = opened_sink(errors) if errors else nullcontext()
        with opened_sink(output) as sink, errors_sink as second, _source(stdin) as source:
            sinks = [one for one in (sink, second) if one is not None]
            try:
                child = start(argv, cwd=cwd, env=env, tag=tag, stdin=source, output=sink, errors=second)
            except NotStarted as refusal:
                duration = time.monotonic() - began
                return Completion(refusal.exit_code, duration, timed_out=False, output=output, error=refusal.reason)
            termination = Termination(child, tag, self.grace)
            try:
                self.watchdog.began(child.pid, child.limit)
                cut = await self._until_end(child, sinks, timeout)
                duration = time.monotonic() - began
                await termination.gently()
            except asyncio.CancelledError:
                await termination.gently()
                raise
            finally:
                termination.now()
                self.watchdog.ended(child.pid)
                status = child.reap()
            for one in sinks:
                if self._is_over_limit(one):
                    cut = cut or self._limit_words
                    os.truncate(one, self.output_limit)
        error = cut or ("its exit status was lost" if status is None else describe_signal(status))
        return Completion(
            exit_code=None if error else status,
            duration=duration,
            timed_out=cut.startswith("timed out"),
            output=output,
            error=error,
            survivors=termination.survivors,
        )

    async def _until_end(self, child: ChildProcess, sinks: Sequence[int], timeout: float | None) -> str:
        """Wait for the end of the child; return why it must be ended, or an empty string if it ended by itself."""
        deadline = time.monotonic() + timeout if timeout is not None else math.inf
        while not await child.wait(max(0.0, min(_POLL, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                return f"timed out after {timeout:g} s"
            if any(map(self._is_over_limit, sinks)):
                return self._limit_words
        return ""

    def _is_over_limit(self, sink: int) -> bool:
        return os.fstat(sink).st_size > self.output_limit

    @property
    def _limit_words(self) -> str:
        return f"output limit of {self.output_limit / 1_000_000:g} MB"


@contextmanager
def _source(data: bytes | None) -> Iterator[int]:
    """Open what the child reads: a file rather than a pipe, so that a child that does not read never blocks the runner."""
    if data is None:
        source = os.open(os.devnull, os.O_RDONLY)
    elif sys.platform == "linux":
        source = os.memfd_create("stdin", os.MFD_CLOEXEC)
    else:
        source, name = tempfile.mkstemp()
        os.unlink(name)  # noqa: PTH108 - there is no Path, only a name
    try:
        if data:
            with open(source, "wb", closefd=False) as file:
                file.write(data)
            os.lseek(source, 0, os.SEEK_SET)
        yield source
    finally:
        os.close(source)


def program_outside(name: str, environ: Mapping[str, str], folders: Iterable[Path]) -> Path | None:
    """Return the first program of that name on PATH that neither lies nor is linked within `folders`, or None."""
    roots = [Path(os.path.realpath(folder)) for folder in folders]
    for entry in environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(entry, name)
        places = (path.resolve(), path.parent.resolve())
        inside = any(place.is_relative_to(root) for place in places for root in roots)
        if path.is_absolute() and os.path.isfile(path) and os.access(path, os.X_OK) and not inside:  # noqa: PTH113 - never raises
            return path
    return None


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call `function` in a daemon thread; return its result or raise its exception.

    Cancelling the wait leaves the thread running, because Python cannot end it. The executor of the event loop is not
    used: closing the loop would wait for it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))

    def work() -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = context.run(function, *arguments)
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=work, name="goal-thread", daemon=True).start()
    value, error = await done
    if error is not None:
        raise error
    return value
