from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("procrastinate", reason="the extra `fleet` is not installed")

from goalrunner.fleet.database import Database, migrate
from tests.support.postgres import Server, server, server_program

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server for all tests of a process."""
    if server_program("initdb") is None:
        pytest.skip("PostgreSQL is not installed here, so no fleet is tested")
    # The folder of pytest belongs to root, and the server may not enter it.
    folder = Path(tempfile.mkdtemp(prefix="goal-postgres-"))
    folder.chmod(0o755)
    with server(folder / "server") as running:
        yield running
    folder.rmdir()


@pytest.fixture
def database_url(postgres: Server) -> str:
    """The URL of an empty database."""
    return postgres.new_database(f"test{next(_NUMBERS)}")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A database with the schema of a fleet."""
    opened = Database(database_url)
    opened.call(migrate)
    yield opened
    opened.close()
