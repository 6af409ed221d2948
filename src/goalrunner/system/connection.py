"""A child process that is talked to over its stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals

from goalrunner.core.errors import AgentNotInstalled
from goalrunner.system import process_table
from goalrunner.system.adopted import adopt_orphans
from goalrunner.system.child import Leader, NotStarted, start
from goalrunner.system.launcher import GRACE, opened_sink
from goalrunner.system.process_table import Mark
from goalrunner.system.termination import PATIENCE, Ending
from goalrunner.system.watchdog import Guardian

_PIECE = 64 * 1024
_PIPE_LOOK = 0.2
"""Seconds between two looks at whether the child lives: another process may hold its end of the pipe open."""


class Pipes:
    """stdin and stdout of a child. `over` says whether the child has ended."""

    def __init__(self) -> None:
        self.child_stdin, self._sink = os.pipe()
        self._source, self.child_stdout = os.pipe()
        self._ours = [self._sink, self._source]
        self._theirs = [self.child_stdin, self.child_stdout]
        for one in self._ours:
            os.set_blocking(one, False)

    def hand_over(self) -> None:
        """The child has its own ends now."""
        _close(self._theirs)

    def close(self) -> None:
        """Close whatever is open. Closing twice does nothing."""
        _close(self._theirs)
        _close(self._ours)

    def hang_up(self) -> None:
        """Nothing more will be written: the child sees the end of its input."""
        if self._sink in self._ours:
            self._ours.remove(self._sink)
            os.close(self._sink)

    async def read(self, over: Callable[[], bool]) -> bytes:
        """What there is, as soon as there is something; empty at the end."""
        loop = asyncio.get_running_loop()
        while self._source in self._ours:
            ended = over()  # asked first: what it wrote before its end is then there to be read
            try:
                data = os.read(self._source, _PIECE)
            except BlockingIOError:
                if ended:
                    return b""
                await _ready(loop.add_reader, loop.remove_reader, self._source)
            else:
                await asyncio.sleep(0)  # a child that never stops writing leaves the others their turn
                return data
        return b""

    async def write(self, data: bytes, over: Callable[[], bool]) -> None:
        """Give all of it. Raises ConnectionError when nobody listens any more."""
        loop = asyncio.get_running_loop()
        rest = memoryview(data)
        while rest:
            if self._sink not in self._ours:
                raise ConnectionError("the pipe is closed")
            try:
                rest = rest[os.write(self._sink, rest) :]
            except BlockingIOError:
                if over():
                    raise ConnectionError("the process has ended") from None
                await _ready(loop.add_writer, loop.remove_writer, self._sink)


async def _ready(add: Callable[..., object], remove: Callable[[int], object], pipe: int) -> None:
    """Wait until the pipe can be read or written, or it is time to look at the child."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    add(pipe, _settle, ready)
    try:
        await asyncio.wait((ready,), timeout=_PIPE_LOOK)
    finally:
        with suppress(OSError, ValueError):
            remove(pipe)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _close(pipes: list[int]) -> None:
    while pipes:
        os.close(pipes.pop())


ERRORS_LIMIT = 64_000_000
"""Bytes of stderr that are kept: beyond them the file begins anew."""

FAREWELL = 1.0
"""Seconds in which a program may go by itself when nothing more will be said to it."""

_LOOK = 0.5
"""Seconds between two looks at the size of stderr."""


@dataclass(frozen=True)
class ProcessConnector:
    """The port `Connector` on this machine. `grace` in seconds, `errors_limit` in bytes.

    What it has started dies with this program, even where that is killed.
    """

    grace: float = GRACE
    errors_limit: int = ERRORS_LIMIT
    guardian: Guardian = field(default_factory=Guardian, repr=False, compare=False)

    @asynccontextmanager
    async def connect(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], errors: Path
    ) -> AsyncIterator[ProcessConnection]:
        """See `core.process_ports.Connector`. Raises AgentNotInstalled, and RecordError when `errors` cannot be written."""
        adopt_orphans()
        mark = Mark(guard=self.guardian.token)
        self.guardian.watch()
        with opened_sink(errors) as second, contextlib.closing(Pipes()) as pipes:
            stdin, stdout = pipes.child_stdin, pipes.child_stdout
            try:
                leader = start(argv, cwd=cwd, env=env, mark=mark, stdin=stdin, output=stdout, errors=second)
            except NotStarted as refusal:
                raise AgentNotInstalled(refusal.reason) from refusal
            pipes.hand_over()
            ending = Ending(leader, mark, self.grace)
            watching: asyncio.Task[None] | None = None
            try:
                self.guardian.began(leader.pid, leader.limit)
                watching = asyncio.create_task(self._bound(second))
                yield ProcessConnection(leader, ending, pipes, self.grace)
                pipes.hang_up()  # an orderly program goes by itself when it has nothing more to read
                await leader.wait(FAREWELL)
            finally:
                try:
                    pipes.hang_up()
                    if watching is not None:
                        watching.cancel()
                    await ending.gently()
                finally:
                    ending.now()
                    self.guardian.ended(leader.pid)
                    leader.reap()

    async def _bound(self, errors: int) -> None:
        """A child that floods stderr keeps its newest words alone."""
        while True:
            await asyncio.sleep(_LOOK)
            if os.fstat(errors).st_size > self.errors_limit:
                os.ftruncate(errors, 0)


class ProcessConnection:
    """The port `Connection` over two pipes."""

    def __init__(self, leader: Leader, ending: Ending, pipes: Pipes, grace: float) -> None:
        self._leader = leader
        self._ending = ending
        self._pipes = pipes
        self._grace = grace
        self._known: frozenset[int] = frozenset()
        self._groups: frozenset[int] = frozenset({leader.pid})

    @property
    def pid(self) -> int:
        """Its id."""
        return self._leader.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, minus the number for a signal; None while it runs."""
        return self._leader.status

    @property
    def obstacle(self) -> str:
        """None: a program that cannot be started is no connection."""
        return ""

    async def read(self) -> bytes:
        """See `core.process_ports.Connection`. Cancelling loses nothing."""
        return await self._pipes.read(self._leader.ended)

    async def write(self, data: bytes) -> None:
        """See `core.process_ports.Connection`. Cancelled in the middle, a part of `data` has been given."""
        await self._pipes.write(data, self._leader.ended)

    def mark(self) -> None:
        """See `core.process_ports.Connection`."""
        living = self._ending.living()
        self._known = frozenset(living)
        self._groups = frozenset({self._leader.pid} | {one.group for one in living.values()})

    async def sweep(self, helpers: Collection[str] = ()) -> tuple[str, ...]:
        """See `core.process_ports.Connection`. Whoever shares a group with a process of before `mark` helps the agent itself."""
        found: dict[int, str] = {}
        began = time.monotonic()
        while strangers := self._strangers(helpers):
            found.update((one.pid, one.name) for one in strangers)
            waited = time.monotonic() - began
            if waited > self._grace + PATIENCE:
                break
            _signal(strangers, SIGTERM if waited < self._grace else SIGKILL)
            await asyncio.sleep(0.01)
        return tuple(found.values())

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """See `core.process_ports.Connection`."""
        stopped: set[int] = set()
        # Processes that are forked while the others are being stopped are found by the next look.
        while new := {one.pid for one in self._ending.living().values()} - stopped:
            for pid in new:
                _send(pid, SIGSTOP)
            stopped |= new
        if not self._leader.ended():
            self._leader.signal_group(SIGSTOP)
            stopped.add(self._leader.pid)
        try:
            yield
        finally:
            if not self._leader.ended():
                self._leader.signal_group(SIGCONT)
            for pid in stopped - {self._leader.pid}:
                _send(pid, SIGCONT)

    def _strangers(self, helpers: Collection[str]) -> list[process_table.Entry]:
        living = self._ending.living()
        kept = {one.pid for one in living.values() if one.name in helpers}
        return [
            one
            for one in living.values()
            if one.pid not in self._known and one.group not in self._groups and not {one.pid, one.parent} & kept
        ]


def _signal(processes: Sequence[process_table.Entry], number: Signals) -> None:
    for one in processes:
        _send(one.pid, number)


def _send(pid: int, number: Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
