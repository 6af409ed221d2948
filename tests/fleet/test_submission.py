"""Ids of the runs that are submitted to a fleet."""

from __future__ import annotations

import random

from goalrunner.batches.plan import BatchEntry
from goalrunner.fleet.database import Connection, Database
from goalrunner.fleet.submission import new_ids
from tests.support.fleet_rows import submit


def entries(number: int) -> list[BatchEntry]:
    return [
        BatchEntry(
            key=str(index),
            name="one",
            source="goal.toml",
            objective="Fix the typing.",
            workspace="/w",
        )
        for index in range(number)
    ]


def test_many_goals_with_the_same_words_have_different_ids(database: Database) -> None:
    def ids(connection: Connection) -> dict[str, str]:
        # With so many, some of the first tries are the same.
        return new_ids(connection, entries(5000), random.Random(1))

    made = database.call(ids)
    assert len(set(made.values())) == len(made) == 5000


def test_an_id_that_a_run_of_the_fleet_has_is_not_given_again(
    database: Database,
) -> None:
    def ids(connection: Connection) -> list[str]:
        return list(new_ids(connection, entries(2), random.Random(1)).values())

    first = database.call(ids)
    submit(database, first[0])
    second = database.call(ids)
    assert first[0] not in second
    assert len(set(second)) == 2
