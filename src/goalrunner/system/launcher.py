"""Starting child processes with a deadline and a bound on their output; their descendants end with them."""

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
from goalrunner.system.child import Leader, NotStarted, start
from goalrunner.system.process_table import Mark
from goalrunner.system.termination import Ending
from goalrunner.system.watchdog import Guardian


@contextmanager
def opened_sink(path: Path) -> Iterator[int]:
    """The output file, new and empty. Appending, so that two writers of one file never overwrite each other."""
    try:
        sink = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}", "free some space, or set GOAL_HOME") from error
    try:
        yield sink
    finally:
        os.close(sink)


_SHELLS = 128
"""Shells and jails give on a signal as this and its number."""

_HARMLESS = frozenset({SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH})
"""Signals that end no process: their numbers are a program's own exit codes."""


def killer(status: int) -> str:
    """What ended a process whose status is `status`: "killed by SIGKILL"; empty where it ended by itself."""
    return "" if status >= 0 else f"killed by {_name(-status)}"


def words_of(status: int) -> str:
    """ "exit 1", "exit 137: SIGKILL" of a process within a shell or a jail, or "killed by SIGKILL"."""
    if status < 0:
        return killer(status)
    known = _SHELLS < status <= _SHELLS + max(Signals) and status - _SHELLS not in _HARMLESS
    return f"exit {status}: {_name(status - _SHELLS)}" if known else f"exit {status}"


def _name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


OUTPUT_LIMIT = 256_000_000
"""Bytes of output after which a command is taken for a runaway."""

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""

_LOOK = 0.1
"""Seconds between two looks at the size of the output."""


@dataclass(frozen=True)
class ProcessLauncher:
    """The port `Launcher` on this machine. `output_limit` in bytes, `grace` in seconds.

    `marked` False leaves out the variable that marks its processes, where something else ends all of them.
    What it has started dies with this program, even where that is killed.
    """

    output_limit: int = OUTPUT_LIMIT
    grace: float = GRACE
    marked: bool = True
    guardian: Guardian = field(default_factory=Guardian, repr=False, compare=False)

    def close(self) -> None:
        """Nothing more will be started."""
        self.guardian.close()

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
        """See `goalrunner.core.process_ports.Launcher`. Raises RecordError when `output` or `errors` cannot be written."""
        adopt_orphans()
        began = time.monotonic()
        mark = Mark(guard=self.guardian.token) if self.marked else Mark.by_limit()
        self.guardian.watch()
        errors_sink = opened_sink(errors) if errors else nullcontext()
        with opened_sink(output) as sink, errors_sink as second, _source(stdin) as source:
            sinks = (sink, second)
            try:
                leader = start(argv, cwd=cwd, env=env, mark=mark, stdin=source, output=sink, errors=second)
            except NotStarted as refusal:
                duration = time.monotonic() - began
                return Completion(refusal.exit_code, duration, timed_out=False, output=output, error=refusal.reason)
            ending = Ending(leader, mark, self.grace)
            try:
                self.guardian.began(leader.pid, leader.limit)
                cut = await self._until_end(leader, sinks, timeout)
                duration = time.monotonic() - began
                await ending.gently()
            except asyncio.CancelledError:
                await ending.gently()
                raise
            finally:
                ending.now()
                self.guardian.ended(leader.pid)
                status = leader.reap()
            for one in sinks:
                if one is not None and self._flooded(one):
                    cut = cut or self._flood
                    os.truncate(one, self.output_limit)
        error = cut or _error_of(status)
        return Completion(
            exit_code=None if error else status,
            duration=duration,
            timed_out=cut.startswith("timed out"),
            output=output,
            error=error,
            survivors=ending.survivors,
        )

    async def _until_end(self, leader: Leader, sinks: Sequence[int | None], timeout: float | None) -> str:
        """Wait for the leader; gives why it must be cut, or an empty string when it came to its own end."""
        deadline = time.monotonic() + timeout if timeout is not None else math.inf
        while not await leader.wait(max(0.0, min(_LOOK, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                return f"timed out after {timeout:g} s"
            if any(map(self._flooded, sinks)):
                return self._flood
        return ""

    def _flooded(self, sink: int | None) -> bool:
        return sink is not None and os.fstat(sink).st_size > self.output_limit

    @property
    def _flood(self) -> str:
        return f"output limit of {self.output_limit / 1_000_000:g} MB"


def _error_of(status: int | None) -> str:
    if status is None:
        return "its exit status was lost"
    return killer(status)


@contextmanager
def _source(data: bytes | None) -> Iterator[int]:
    """What the child reads: a file, never a pipe, so that a child that does not read holds nobody up."""
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


SHELL = "/bin/sh"
"""By its path: a PATH may begin in the workspace, where an agent can put a `sh`."""


def program_outside(name: str, environ: Mapping[str, str], folders: Iterable[Path]) -> Path | None:
    """The first program of that name on PATH: no relative entry, and neither it nor its folder within `folders`."""
    roots = [Path(os.path.realpath(folder)) for folder in folders]
    for entry in environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(entry, name)
        places = (path.resolve(), path.parent.resolve())
        inside = any(place.is_relative_to(root) for place in places for root in roots)
        if path.is_absolute() and os.path.isfile(path) and os.access(path, os.X_OK) and not inside:  # noqa: PTH113 - never raises
            return path
    return None


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call in a daemon thread and give what it gives; what it raises is raised here.

    Cancelling the wait leaves the thread to itself: Python cannot end one. The loop's own executor is not used, because
    closing the loop would wait for it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def tell(value: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))

    def work() -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = context.run(function, *arguments)
        except BaseException as error:
            # Handed over to the waiting side, which raises it.
            failure = error
        # The loop may be closed by now: nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, value, failure)

    threading.Thread(target=work, name="goal-thread", daemon=True).start()
    value, error = await done
    if error is not None:
        raise error
    return value
