"""The database of a fleet: connections that never hang, and its schema."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import resources
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit, urlunsplit

from goalrunner.core.errors import GoalError, UsageError, one_line
from goalrunner.fleet import VARIABLE

try:
    import psycopg
    from psycopg.rows import dict_row
except ImportError as error:
    raise UsageError(
        "a fleet needs the packages of the extra `fleet`",
        "install them: pip install 'goalrunner[fleet]'",
    ) from error

P = ParamSpec("P")
T = TypeVar("T")
Connection: TypeAlias = "psycopg.Connection[dict[str, Any]]"

_CONNECT_TIMEOUT = 5
_STATEMENT_TIMEOUT = 10.0
"""Seconds for one statement. Without an answer by then, the connection is given up."""
_LOCK = 7_130_426_914_283_001
"""The key of the lock under which the schema is changed; any number that nothing else
uses.
"""


class DatabaseUnreachable(GoalError):
    """The database of the fleet does not answer."""


def database_url(option: str | None, environ: Mapping[str, str]) -> str:
    """Return the URL of the database. Raise UsageError if none is given."""
    url = option or environ.get(VARIABLE, "")
    if not url:
        raise UsageError(
            "the database of the fleet is not known",
            f"--db postgresql://host/name, or export {VARIABLE}=postgresql://host/name",
        )
    return url


def shown_url(url: str) -> str:
    """Return a URL for people, without its password."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    shown = urlunsplit(parts._replace(netloc=f"{name}{at}{host}"))
    return re.sub(r"(password=)[^&\s]*", r"\1...", shown)


@dataclass
class _Call:
    """One call, in a thread."""

    connection: Connection | None
    url: str
    timeout: float
    is_abandoned: bool = False

    def result_of(self, work: Callable[[Connection], T]) -> T:
        try:
            if self.connection is None or self.connection.closed:
                self.connection = connect(self.url, self.timeout)
            # A connection that waits inside of a transaction would hold locks.
            with self.connection.transaction():
                return work(self.connection)
        finally:
            # Its caller waits no longer, and nothing else has this connection.
            if self.is_abandoned and self.connection is not None:
                self.connection.close()


class Database:
    """A connection that is opened again after it broke.

    Each call runs in a thread of its own: a proxy that was stopped accepts data and
    never answers, and no timeout of TCP ends that.
    """

    def __init__(
        self,
        url: str,
        timeout: float = _STATEMENT_TIMEOUT,
        connect_timeout: float = _CONNECT_TIMEOUT,
    ) -> None:
        """`timeout` is the seconds for one statement; a call takes both at most."""
        self.url = url
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._connection: Connection | None = None

    def call(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` returns, in one transaction.

        Raise DatabaseUnreachable; the transaction may then have been committed or not.
        """
        future: Future[T] = Future()
        thread = _Call(self._connection, self.url, self._timeout)

        def run() -> None:
            try:
                future.set_result(thread.result_of(work))
            except BaseException as error:
                future.set_exception(error)

        # A daemon: it may wait for ever, and must not keep the process from ending.
        threading.Thread(target=run, name="goal-fleet-database", daemon=True).start()
        try:
            result = future.result(self._timeout + self._connect_timeout)
        except TimeoutError:
            # Its thread closes it, if it ever ends.
            thread.is_abandoned = True
            self._connection = None
            raise self._unreachable("no answer") from None
        # Also a table that is gone: after a failover, or while a backup is restored.
        except psycopg.Error as error:
            self._connection = thread.connection
            self.close()
            raise self._unreachable(str(error)) from error
        # An error of `work` itself says nothing about the connection.
        except BaseException:
            self._connection = thread.connection
            raise
        self._connection = thread.connection
        return result

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _unreachable(self, reason: str) -> DatabaseUnreachable:
        return DatabaseUnreachable(
            f"the database of the fleet, {shown_url(self.url)}, cannot be used: "
            f"{one_line(reason)}",
            "start it, or check the URL; runs go on when it answers",
        )


class AsyncDatabase:
    """A connection for coroutines, which use it one after another."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self._lock = asyncio.Lock()

    async def ask(
        self,
        work: Callable[Concatenate[Connection, P], T],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Return what a short transaction returns. Raise DatabaseUnreachable."""

        async def call() -> T:
            async with self._lock:
                return await asyncio.to_thread(
                    self._database.call,
                    lambda connection: work(connection, *arguments, **named),
                )

        # The thread goes on when this is cancelled, and nothing else may use the
        # connection before it has ended.
        return await asyncio.shield(asyncio.create_task(call()))


def connect(url: str, timeout: float = _STATEMENT_TIMEOUT) -> Connection:
    """Return a new connection. Raise psycopg.OperationalError."""
    return psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=_CONNECT_TIMEOUT,
        # To compile the list of 10,000 runs takes longer than to read it.
        options=f"-c statement_timeout={int(timeout * 1000)} -c jit=off",
        application_name="goal fleet",
        row_factory=dict_row,
    )


_VERSION_TABLE = """\
CREATE TABLE IF NOT EXISTS goal_fleet_schema (
    version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp()
)"""
_FIND_TABLE = "SELECT to_regclass(%s) IS NOT NULL AS found"


def migrate(connection: Connection) -> int:
    """Bring the schema to the version of this program, and return how many steps it
    took; 0 if nothing had to be done.

    Two processes can do it at once. Raise UsageError if the schema is newer.
    """
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    connection.execute(_VERSION_TABLE)
    version = schema_version(connection)
    steps = migrations()
    newest = max(steps)
    if version > newest:
        raise _newer(version, newest)
    for number in range(version + 1, newest + 1):
        connection.execute(steps[number].encode())
        insert = "INSERT INTO goal_fleet_schema (version) VALUES (%s)"
        connection.execute(insert, [number])
    return newest - version


def has_table(connection: Connection, name: str) -> bool:
    """Return whether the database has that table."""
    row = connection.execute(_FIND_TABLE, [name]).fetchone()
    return row is not None and bool(row["found"])


def schema_version(connection: Connection) -> int:
    """Return the version of the schema; 0 if there is none."""
    if not has_table(connection, "goal_fleet_schema"):
        return 0
    newest = "SELECT coalesce(max(version), 0) AS version FROM goal_fleet_schema"
    row = connection.execute(newest).fetchone()
    return int(row["version"]) if row is not None else 0


def require_schema(connection: Connection) -> None:
    """Raise UsageError if the schema is not the one of this program."""
    # Also a newer one: its program may write what this one would misread.
    version, newest = schema_version(connection), max(migrations())
    if version > newest:
        raise _newer(version, newest)
    if version < newest:
        reason = "has no fleet" if not version else f"has schema version {version}"
        raise UsageError(
            f"the database {reason}; this program needs version {newest}",
            "goal fleet init",
        )


def _newer(version: int, newest: int) -> UsageError:
    return UsageError(
        f"the database has schema version {version}, "
        f"and this program knows versions up to {newest}",
        "install the version of goalrunner that made it",
    )


def migrations() -> dict[int, str]:
    """Return the changes of the schema, by the version that each one leads to."""
    folder = resources.files(__package__) / "migrations"
    steps: dict[int, str] = {}
    for file in folder.iterdir():
        if file.name.endswith(".sql"):
            steps[int(file.name.removesuffix(".sql"))] = file.read_text("utf-8")
    return steps
