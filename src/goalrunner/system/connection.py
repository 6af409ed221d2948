"""A child process with which the runner exchanges messages over stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from io import FileIO
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

from goalrunner.core.errors import AgentNotInstalled
from goalrunner.system.change_clock import change_time
from goalrunner.system.child import (
    PATIENCE,
    ChildProcess,
    NotStarted,
    started,
    unstartable,
)
from goalrunner.system.event_loop import ready
from goalrunner.system.launcher import GRACE, opened_sink
from goalrunner.system.processes import Process, send_signal
from goalrunner.system.sandbox import SandboxPolicy, unstarted
from goalrunner.system.watchdog import Watchdog

_PIECE = 64 * 1024
# Seconds between two looks at whether the child lives: another process may hold its end
# of the pipe open.
_PIPE_POLL = 0.2
# Seconds for which the output of a process that no longer reads is still read.
_LAST_WORDS = 1.0
FAREWELL = 1.0
"""Seconds that a program has to end by itself after its input was closed."""


def _pipe(files: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """Return the ends of a pipe, to read from and to write to."""
    source, sink = os.pipe()
    return (
        files.enter_context(FileIO(source, "rb")),
        files.enter_context(FileIO(sink, "wb")),
    )


@dataclass(frozen=True)
class ProcessConnector:
    """Starts child processes with which messages are exchanged.

    They run in a sandbox if there is a policy. `grace` is in seconds. The processes end
    with this program, even if the program is killed.
    """

    grace: float = GRACE
    policy: SandboxPolicy | None = None
    watchdog: Watchdog = field(default_factory=Watchdog, repr=False, compare=False)

    @asynccontextmanager
    async def connect(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], errors: Path
    ) -> AsyncIterator[ProcessConnection]:
        """Return a context in which the process runs; at its end all processes end.

        stderr goes to the file `errors`. Raise AgentNotInstalled if the program cannot
        be started, and RecordError if `errors` or its /tmp cannot be written.
        """
        command = argv
        if self.policy is not None:
            # Inside of the sandbox, a missing program would only be an exit code.
            missing = unstartable(argv, cwd, env)
            if missing is not None:
                raise AgentNotInstalled(missing.reason)
        with opened_sink(errors) as error_sink, contextlib.ExitStack() as files:
            child_stdin, sink = _pipe(files)
            source, child_stdout = _pipe(files)
            if self.policy is not None:
                command = self.policy.confined(argv, cwd)
            process = started(
                command,
                cwd=cwd,
                env=env,
                streams=(child_stdin.fileno(), child_stdout.fileno(), error_sink),
                watchdog=self.watchdog,
                grace=self.grace,
            )
            try:
                async with process as child:
                    # The child has inherited these. Open here, they would hide its end.
                    child_stdin.close()
                    child_stdout.close()
                    connection = ProcessConnection(child, source, sink, self.grace)
                    if self.policy is not None:
                        connection.explain = partial(
                            unstarted,
                            self.policy,
                            errors=errors,
                            argv=argv,
                            cwd=cwd,
                            env=env,
                        )
                    try:
                        yield connection
                        # Most programs end by themselves when their input ends.
                        sink.close()
                        await child.wait(FAREWELL)
                    finally:
                        sink.close()
            except NotStarted as refusal:
                raise AgentNotInstalled(refusal.reason) from refusal


class ProcessConnection:
    """A child process with which messages are exchanged over two pipes.

    `explain` gives the reason of an exit code if the program never started.
    """

    def __init__(
        self, child: ChildProcess, source: FileIO, sink: FileIO, grace: float
    ) -> None:
        self.explain: Callable[[int], str] = lambda _: ""
        self.pid = child.pid
        self._child = child
        self._source, self._sink = source, sink
        for pipe in (source, sink):
            os.set_blocking(pipe.fileno(), False)
        self._grace = grace
        self._read_until = math.inf
        self.silent_at = change_time()
        """When all output had been read, by the clock of file times."""
        # Processes and groups that existed at the start of the round.
        self._old_processes: frozenset[int] = frozenset()
        self._old_groups: frozenset[int] = frozenset({child.pid})

    @property
    def exit_code(self) -> int | None:
        """The exit code, minus the number for a signal; None while it runs."""
        return self._child.status if self._child.ended() else None

    @property
    def obstacle(self) -> str:
        """Why its program could not be started inside of a sandbox; else empty."""
        return self.explain(self.exit_code) if self.exit_code else ""

    def processor_time(self) -> float:
        """Return the seconds of processor time that its processes have used."""
        return self._child.processor_time()

    async def read(self) -> bytes:
        """Return new output as soon as there is some; empty at its end.

        Cancelling loses nothing.
        """
        while not self._source.closed and time.monotonic() < self._read_until:
            # Lets other tasks run beside a child that never stops writing.
            await asyncio.sleep(0)
            # Asked before reading: what it wrote before its end can then be read.
            has_ended = self._child.ended()
            now = change_time()
            data = self._source.read(_PIECE)
            if data is not None:
                return data
            self.silent_at = now
            if has_ended:
                break
            await ready(self._source.fileno(), _PIPE_POLL)
        return b""

    async def write(self, data: bytes) -> None:
        """Write all of `data`, or a part if it is cancelled.

        Raise OSError if the process no longer reads. Its output is then read for a
        second more.
        """
        try:
            await self._write(data)
        except OSError:
            self._read_until = time.monotonic() + _LAST_WORDS
            raise

    async def _write(self, data: bytes) -> None:
        unwritten = memoryview(data)
        while unwritten:
            if self._sink.closed:
                raise ConnectionError("the pipe is closed")
            written = self._sink.write(unwritten)
            if written is not None:
                unwritten = unwritten[written:]
            elif self._child.ended():
                raise ConnectionError("the process has ended")
            else:
                await ready(self._sink.fileno(), _PIPE_POLL, to_write=True)

    def mark(self) -> None:
        """Note the start of a round.

        Processes that exist now belong to the agent, with their groups.
        """
        living = self._child.living()
        groups = {process.group for process in living.values()}
        self._old_processes = frozenset(living)
        self._old_groups = frozenset({self._child.pid, *groups})

    async def sweep(self, helpers: Collection[str] = ()) -> tuple[str, ...]:
        """End every descendant that started after `mark` in a group of its own.

        Return their names. Processes with a name in `helpers` and their children stay.
        """
        swept_names: dict[int, str] = {}
        began = time.monotonic()
        while new_processes := self._new_processes(helpers):
            for process in new_processes:
                swept_names[process.pid] = process.name
            waited = time.monotonic() - began
            if waited > self._grace + PATIENCE:
                break
            number = SIGTERM if waited < self._grace else SIGKILL
            for process in new_processes:
                send_signal(process.pid, number)
            await asyncio.sleep(0.01)
        return tuple(swept_names.values())

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop it and every process below it while the context is open.

        None of them can then change a file.
        """
        stopped: set[int] = set()
        # Processes that are forked while the others are being stopped are found by the
        # next look.
        while running := set(self._child.living()) - stopped:
            for pid in running:
                send_signal(pid, SIGSTOP)
            stopped |= running
        if not self._child.ended():
            self._child.signal_group(SIGSTOP)
            stopped.add(self._child.pid)
        try:
            yield
        finally:
            if not self._child.ended():
                self._child.signal_group(SIGCONT)
            for pid in stopped - {self._child.pid}:
                send_signal(pid, SIGCONT)

    def _new_processes(self, helpers: Collection[str]) -> list[Process]:
        living = self._child.living().values()
        helper_ids = {process.pid for process in living if process.name in helpers}
        new_processes = []
        for process in living:
            is_old = process.pid in self._old_processes
            if is_old or process.group in self._old_groups:
                continue
            if not {process.pid, process.parent} & helper_ids:
                new_processes.append(process)
        return new_processes
