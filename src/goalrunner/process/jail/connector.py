"""A connector that starts everything in a cell. Owns what is said of it; another connector starts, talks and ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from goalrunner.errors import AgentNotInstalled
from goalrunner.ports import Connection, Connector
from goalrunner.process.jail.cell import Cell
from goalrunner.process.jail.launcher import unstarted
from goalrunner.process.jail.startable import unstartable


@dataclass(frozen=True)
class JailedConnector:
    """The port `Connector` in a cell."""

    inner: Connector
    cell: Cell

    def connect(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], errors: Path
    ) -> AbstractAsyncContextManager[Connection]:
        """See `goalrunner.ports.Connector`. Raises AgentNotInstalled, and RecordError where its /tmp cannot be made."""
        if (missing := unstartable(argv, cwd, env)) is not None:
            raise AgentNotInstalled(missing.reason)
        begun = self.inner.connect(self.cell.confined(argv, cwd), cwd=cwd, env=env, errors=errors)
        return _jailed(begun, partial(unstarted, self.cell, said=errors, argv=argv, cwd=cwd, env=env))


@asynccontextmanager
async def _jailed(
    begun: AbstractAsyncContextManager[Connection], why: Callable[[int], str]
) -> AsyncIterator[Connection]:
    async with begun as connection:
        yield _Jailed(connection, why)


class _Jailed:
    """A connection to a process in a cell, which may hide its program. `why` is asked with its exit code."""

    def __init__(self, connection: Connection, why: Callable[[int], str]) -> None:
        self._connection = connection
        self._why = why

    async def read(self) -> bytes:
        return await self._connection.read()

    async def write(self, data: bytes) -> None:
        await self._connection.write(data)

    def mark(self) -> None:
        self._connection.mark()

    async def sweep(self, helpers: Collection[str] = ()) -> tuple[str, ...]:
        return await self._connection.sweep(helpers)

    def paused(self) -> AbstractContextManager[None]:
        return self._connection.paused()

    @property
    def exit_code(self) -> int | None:
        return self._connection.exit_code

    @property
    def obstacle(self) -> str:
        return self._why(self.exit_code) if self.exit_code else ""
