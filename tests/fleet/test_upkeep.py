"""What one worker of many does for the runs of all."""

from __future__ import annotations

from goalrunner.fleet import runs
from goalrunner.fleet.database import Connection, Database
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
