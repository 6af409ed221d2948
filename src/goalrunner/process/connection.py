"""Starts a child that is talked to, and leaves nobody behind. Owns its life and its helpers; knows nothing of what is said."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals

from goalrunner.errors import AgentNotInstalled
from goalrunner.process import table
from goalrunner.process.ancestry import adopt_orphans
from goalrunner.process.ending import PATIENCE, Ending
from goalrunner.process.guardian import Guardian
from goalrunner.process.launcher import GRACE
from goalrunner.process.leader import Leader, NotStarted, start
from goalrunner.process.mark import Mark
from goalrunner.process.pipe import Pipes
from goalrunner.process.sink import opened_sink

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
        """See `goalrunner.ports.Connector`. Raises AgentNotInstalled, and RecordError when `errors` cannot be written."""
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
        """See `goalrunner.ports.Connection`. Cancelling loses nothing."""
        return await self._pipes.read(self._leader.ended)

    async def write(self, data: bytes) -> None:
        """See `goalrunner.ports.Connection`. Cancelled in the middle, a part of `data` has been given."""
        await self._pipes.write(data, self._leader.ended)

    def mark(self) -> None:
        """See `goalrunner.ports.Connection`."""
        living = self._ending.living()
        self._known = frozenset(living)
        self._groups = frozenset({self._leader.pid} | {one.group for one in living.values()})

    async def sweep(self, helpers: Collection[str] = ()) -> tuple[str, ...]:
        """See `goalrunner.ports.Connection`. Whoever shares a group with a process of before `mark` helps the agent itself."""
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
        """See `goalrunner.ports.Connection`."""
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

    def _strangers(self, helpers: Collection[str]) -> list[table.Entry]:
        living = self._ending.living()
        kept = {one.pid for one in living.values() if one.name in helpers}
        return [
            one
            for one in living.values()
            if one.pid not in self._known and one.group not in self._groups and not {one.pid, one.parent} & kept
        ]


def _signal(processes: Sequence[table.Entry], number: Signals) -> None:
    for one in processes:
        _send(one.pid, number)


def _send(pid: int, number: Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
