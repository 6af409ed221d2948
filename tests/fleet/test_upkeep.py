"""What one worker of many does for the runs of all."""

from __future__ import annotations

import asyncio

import pytest

from goalrunner.cli.main import main
from goalrunner.fleet import runs
from goalrunner.fleet.database import Connection, Database
from goalrunner.fleet.queue import (
    enqueue,
    prepare_database,
    queue_app,
    remove_stalled_jobs,
)
from tests.support.fleet_rows import submit, taken, worker


def test_one_of_many_workers_has_the_turn(database: Database) -> None:
    def turn(seconds: float) -> bool:
        return database.call(lambda connection: runs.take_upkeep(connection, seconds))

    assert turn(60)
    assert not turn(60)
    assert turn(0)


def test_followers_are_those_that_are_still_queued(database: Database) -> None:
    submit(database, "r1")
    submit(database, "r2")

    def follow(after: list[str]) -> bool:
        def change(connection: Connection) -> bool:
            connection.execute(
                "UPDATE goal_fleet_runs SET after = %s WHERE run_id = 'r2'", [after]
            )
            return runs.has_followers(connection, "r1")

        return database.call(change)

    assert not follow([])
    assert follow(["r0", "r1"])
    taken(database, worker(database, "a"), "r2")
    assert not follow(["r1"])


async def begin_jobs(url: str) -> None:
    """Queue three runs, of which three workers begin one each; one worker is alive."""
    app = queue_app(url)
    async with app.open_async():
        manager, connector = app.job_manager, app.connector
        workers = [await manager.register_worker() for _ in range(3)]
        for number, worker_id in enumerate(workers):
            await enqueue(app, f"r{number}", "default", 0)
            assert await manager.fetch_job(queues=None, worker_id=worker_id)
        await connector.execute_query_async(
            "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 h'"
            " WHERE id <> %(alive)s",
            alive=workers[2],
        )
        # A worker that starts forgets the others that are dead.
        await manager.prune_stalled_workers(1800)
        await enqueue(app, "r3", "default", 0)


def jobs(database: Database) -> list[tuple[str, str]]:
    rows = database.call(
        lambda connection: connection.execute(
            "SELECT queueing_lock AS run, status::text FROM procrastinate_jobs ORDER BY 1"
        ).fetchall()
    )
    return [(row["run"], row["status"]) for row in rows]


async def remove(url: str) -> int:
    app = queue_app(url)
    async with app.open_async():
        return await remove_stalled_jobs(app)


def test_jobs_of_killed_workers_are_removed(database: Database) -> None:
    asyncio.run(prepare_database(database.url))
    asyncio.run(begin_jobs(database.url))
    assert [status for _, status in jobs(database)] == ["doing"] * 3 + ["todo"]
    assert asyncio.run(remove(database.url)) == 2
    assert jobs(database) == [("r2", "doing"), ("r3", "todo")]
    assert asyncio.run(remove(database.url)) == 0


def test_the_command_for_stalled_runs_removes_their_jobs(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(prepare_database(database.url))
    asyncio.run(begin_jobs(database.url))
    monkeypatch.setenv("GOAL_FLEET", database.url)
    assert main(["fleet", "requeue", "--stalled"]) == 0
    assert jobs(database) == [("r2", "doing"), ("r3", "todo")]
