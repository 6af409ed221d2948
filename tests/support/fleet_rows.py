"""Rows of a fleet's database, made without goals."""

from __future__ import annotations

from goalrunner.fleet import runs
from goalrunner.fleet.database import Database
from goalrunner.fleet.runs import WorkerRow


def submit(database: Database, run_id: str = "r1") -> None:
    database.call(
        lambda connection: connection.execute(
            "INSERT INTO goal_fleet_runs (run_id, name, objective, job)"
            " VALUES (%s, 'one', 'Make it.', '{}')",
            [run_id],
        )
    )


def worker(database: Database, name: str) -> int:
    row = WorkerRow(name, "host", 1, 2)
    return database.call(lambda connection: runs.register(connection, row))


def taken(database: Database, worker_id: int, run_id: str = "r1") -> runs.TakenRun:
    taken_run = database.call(
        lambda connection: runs.take_run(connection, run_id, worker_id)
    )
    assert taken_run is not None
    return taken_run
