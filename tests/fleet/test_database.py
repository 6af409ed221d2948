from __future__ import annotations

import socket
import threading
import time

import pytest

from goalrunner.core.errors import UsageError
from goalrunner.fleet import database as module
from goalrunner.fleet.database import (
    Database,
    DatabaseUnreachable,
    connect,
    migrate,
    migrations,
    require_schema,
    shown_url,
)
from tests.support.postgres import Server


def test_the_schema_is_made_once(database_url: str) -> None:
    with Database(database_url) as database:
        assert database.call(migrate) == max(migrations())
        assert database.call(migrate) == 0
        database.call(require_schema)


def test_two_processes_can_make_the_schema_at_once(database_url: str) -> None:
    steps: list[int] = []

    def make() -> None:
        with Database(database_url) as database:
            steps.append(database.call(migrate))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(steps) == [0, 0, 0, max(migrations())]


def test_a_database_without_a_fleet_names_the_command(database_url: str) -> None:
    with (
        Database(database_url) as database,
        pytest.raises(UsageError, match="has no fleet") as error,
    ):
        database.call(require_schema)
    assert error.value.hint == "goal fleet init"


@pytest.mark.parametrize("check", [migrate, require_schema])
def test_a_newer_schema_is_refused(database: Database, check: object) -> None:
    database.call(
        lambda connection: connection.execute(
            "INSERT INTO goal_fleet_schema (version) VALUES (99)"
        )
    )
    with pytest.raises(UsageError, match="version 99"):
        database.call(check)  # type: ignore[arg-type]


def test_a_database_that_is_down_is_an_error_with_its_url() -> None:
    database = Database("postgresql://me:secret@127.0.0.1:1/fleet")
    with pytest.raises(DatabaseUnreachable) as error:
        database.call(migrate)
    assert "me@127.0.0.1:1/fleet" in str(error.value)
    assert "secret" not in str(error.value)


def test_a_server_that_accepts_and_never_answers_does_not_hang() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        database = Database(f"postgresql://x@127.0.0.1:{port}/fleet", timeout=0.5)
        began = time.monotonic()
        with pytest.raises(DatabaseUnreachable):
            database.call(migrate)
        assert time.monotonic() - began < 15


def test_a_broken_connection_is_opened_again(
    database: Database, postgres: Server
) -> None:
    kill = "SELECT pg_terminate_backend(pg_backend_pid())"
    with pytest.raises(DatabaseUnreachable):
        database.call(lambda connection: connection.execute(kill))
    database.call(require_schema)


def test_a_restarted_server_is_used_again(database: Database, postgres: Server) -> None:
    database.call(require_schema)
    postgres.stop()
    with pytest.raises(DatabaseUnreachable):
        database.call(require_schema)
    postgres.start()
    database.call(require_schema)


def test_statements_have_a_time_limit(database_url: str) -> None:
    import psycopg

    connection = connect(database_url, timeout=0.2)
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("SELECT pg_sleep(5)")
    connection.close()


def test_the_url_comes_from_option_or_environment() -> None:
    assert module.database_url("postgresql://a/b", {}) == "postgresql://a/b"
    assert (
        module.database_url(None, {"GOAL_FLEET": "postgresql://c/d"})
        == "postgresql://c/d"
    )
    with pytest.raises(UsageError, match="not known"):
        module.database_url(None, {})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://host/name", "postgresql://host/name"),
        ("postgresql://me:secret@host/name", "postgresql://me@host/name"),
        ("postgresql://h/n?password=secret&x=1", "postgresql://h/n?password=...&x=1"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown
