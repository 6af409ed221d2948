from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.postgres import Server, server, server_program

if TYPE_CHECKING:
    from goalrunner.fleet.database import Database

_NUMBERS = itertools.count(1)

# The modules of the fleet cannot be imported without its extra; test_extra.py says so.
collect_ignore_glob = [] if find_spec("procrastinate") else ["test_[!e]*.py"]


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
    from goalrunner.fleet.database import Database, migrate

    opened = Database(database_url)
    opened.call(migrate)
    yield opened
    opened.close()
