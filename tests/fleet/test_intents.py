"""Lines of a log in the database, also when two workers believe that they have the run."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from goalrunner.fleet import runs
from goalrunner.fleet.database import Connection, Database
from goalrunner.fleet.intents import IntentWriter, TokenLost, lines_of, lost_lines
from tests.support.fleet_rows import submit, taken, worker
from tests.support.postgres import Server


def lines(database: Database, token: int) -> list[tuple[int, bytes]]:
    return database.call(lambda connection: lines_of(connection, "r1", token))


def die(database: Database, worker_id: int) -> list[str]:
    """Let a worker be silent for more than a lease; return what can be taken again."""

    def take(connection: Connection) -> list[str]:
        connection.execute(
            "UPDATE goal_fleet_workers SET seen_at = clock_timestamp() - interval '1 h'"
            " WHERE worker_id = %s",
            [worker_id],
        )
        return runs.free_runs_of_dead(connection)

    return database.call(take)


def test_lines_are_written_by_the_holder_of_the_run(database: Database) -> None:
    submit(database)
    taken_run = taken(database, worker(database, "a"))
    write = IntentWriter(database, "r1", taken_run.token)
    write([(1, b'{"a":1}'), (2, b"{}")])
    write([(3, b'{"text":"\\u0000"}')])
    assert lines(database, taken_run.token) == [
        (1, b'{"a":1}'),
        (2, b"{}"),
        (3, b'{"text":"\\u0000"}'),
    ]


def test_writing_the_same_lines_again_is_no_error(database: Database) -> None:
    submit(database)
    taken_run = taken(database, worker(database, "a"))
    write = IntentWriter(database, "r1", taken_run.token)
    write([(1, b"{}")])
    write([(1, b"{}"), (2, b"{}")])
    assert len(lines(database, taken_run.token)) == 2
    with pytest.raises(TokenLost):
        write([(2, b'{"other":1}')])


def test_a_worker_that_was_taken_for_dead_writes_no_further_line(
    database: Database,
) -> None:
    submit(database)
    first, second = worker(database, "a"), worker(database, "b")
    old = taken(database, first)
    IntentWriter(database, "r1", old.token)([(1, b"{}")])
    assert die(database, first) == ["r1"]
    with pytest.raises(TokenLost):
        IntentWriter(database, "r1", old.token)([(2, b"{}")])
    new = taken(database, second)
    assert new.token > old.token
    assert new.previous_token == old.token
    IntentWriter(database, "r1", new.token)([(2, b"{}")])
    assert [seq for seq, _ in lines(database, old.token)] == [1]


def test_of_a_line_and_a_takeover_at_once_the_taker_sees_the_line_or_it_fails(
    database: Database, database_url: str
) -> None:
    submit(database)
    for _ in range(10):
        holder = worker(database, "a")
        taken_run = taken(database, holder)
        outcomes: list[str] = []

        def write(token: int = taken_run.token, outcomes: list[str] = outcomes) -> None:
            with Database(database_url) as other:
                try:
                    IntentWriter(other, "r1", token)([(1, b"{}")])
                    outcomes.append("written")
                except TokenLost:
                    outcomes.append("lost")

        thread = threading.Thread(target=write)
        thread.start()
        assert die(database, holder) == ["r1"]
        seen = lines(database, taken_run.token)
        thread.join()
        # What is written after the takeover would not have been seen by its reader.
        assert lines(database, taken_run.token) == seen
        assert (outcomes == ["written"]) == (seen != [])
        database.call(_alive_again)


def _alive_again(connection: Connection) -> Any:
    """Let the run be taken again, whatever it has cost."""
    return connection.execute("UPDATE goal_fleet_runs SET state = 'queued', deaths = 0")


@pytest.mark.slow
def test_a_line_survives_a_restart_of_the_database(
    database: Database, postgres: Server
) -> None:
    submit(database)
    taken_run = taken(database, worker(database, "a"))
    write = IntentWriter(database, "r1", taken_run.token)
    write([(1, b"{}")])
    postgres.stop()
    restart = threading.Timer(1.0, postgres.start)
    restart.start()
    # It waits until the database answers again.
    write([(2, b"{}")])
    restart.join()
    assert [seq for seq, _ in lines(database, taken_run.token)] == [1, 2]


def test_a_run_that_kills_its_workers_is_given_up(database: Database) -> None:
    submit(database)
    for number in range(runs.MOST_DEATHS):
        worker_id = worker(database, f"w{number}")
        taken(database, worker_id)
        again = die(database, worker_id)
    assert again == []
    state = database.call(
        lambda connection: connection.execute(
            "SELECT state, reason FROM goal_fleet_runs"
        ).fetchone()
    )
    assert state == {
        "state": "dead",
        "reason": "worker w2 ended without ending the run",
    }


def test_a_run_is_given_to_one_worker(database: Database) -> None:
    submit(database)
    first, second = worker(database, "a"), worker(database, "b")
    taken(database, first)
    assert (
        database.call(lambda connection: runs.take_run(connection, "r1", second))
        is None
    )


def test_the_end_is_recorded_by_the_holder_alone(database: Database) -> None:
    submit(database)
    first, second = worker(database, "a"), worker(database, "b")
    old = taken(database, first)
    die(database, first)
    new = taken(database, second)
    assert not database.call(lambda c: runs.end_run(c, old, "complete", 0, {}))
    assert database.call(lambda c: runs.give_back(c, old, "killed", died=True)) is None
    assert database.call(lambda c: runs.end_run(c, new, "complete", 0, {}))
    with pytest.raises(TokenLost):
        IntentWriter(database, "r1", new.token)([(9, b"{}")])


def test_two_workers_of_one_name_are_never_alive_at_once(database: Database) -> None:
    first = worker(database, "a")
    with pytest.raises(Exception, match="there is a worker a already"):
        worker(database, "a")
    assert database.call(lambda connection: runs.heartbeat(connection, first))
    die(database, first)
    assert not database.call(lambda connection: runs.heartbeat(connection, first))
    worker(database, "a")


def test_a_worker_that_signed_off_leaves_its_runs_at_once(database: Database) -> None:
    submit(database)
    first = worker(database, "a")
    taken(database, first)
    database.call(lambda connection: runs.sign_off(connection, first))
    assert database.call(runs.free_runs_of_dead) == ["r1"]


def test_a_worker_that_was_taken_for_dead_gets_no_run(database: Database) -> None:
    submit(database)
    first = worker(database, "a")
    die(database, first)
    taken_run = database.call(lambda connection: runs.take_run(connection, "r1", first))
    assert taken_run is None
    taken(database, worker(database, "b"))


def test_workers_that_the_database_did_not_hear_of_have_another_lease(
    database: Database,
) -> None:
    submit(database)
    first, second = worker(database, "a"), worker(database, "b")
    taken(database, first)
    # The database was away for an hour, and only the second one was faster.
    database.call(
        lambda connection: connection.execute(
            "UPDATE goal_fleet_workers SET seen_at = seen_at - interval '1 h', "
            "steady_since = steady_since - interval '2 h'"
        )
    )

    def look(connection: Connection) -> list[str]:
        return runs.free_runs_of_dead(connection, observer=second)

    assert database.call(look) == []
    assert database.call(lambda connection: runs.heartbeat(connection, second))
    assert database.call(look) == []
    database.call(
        lambda connection: connection.execute(
            "UPDATE goal_fleet_workers SET steady_since = steady_since - interval '1 h'"
        )
    )
    assert database.call(look) == ["r1"]


def test_deaths_before_the_end_of_a_round_do_not_count_after_it(
    database: Database,
) -> None:
    submit(database)
    for number in range(2 * runs.MOST_DEATHS):
        worker_id = worker(database, f"w{number}")
        taken_run = taken(database, worker_id)
        stored = partial(
            runs.record_shipped,
            taken_run=taken_run,
            archive="key",
            seq=9,
            summary={},
            ends_round=True,
        )
        database.call(stored)
        assert die(database, worker_id) == ["r1"]


def test_lost_lines_are_those_of_all_workers_since_the_last_stored_event(
    database: Database,
) -> None:
    submit(database)
    worker_id = worker(database, "a")
    first = taken(database, worker_id)
    IntentWriter(database, "r1", first.token)([(1, b"1a"), (2, b"2a"), (3, b"3a")])
    database.call(
        lambda connection: runs.record_shipped(connection, first, "key", 1, {})
    )
    assert die(database, worker_id) == ["r1"]
    second = taken(database, worker(database, "b"))
    assert second.shipped_token == first.token
    # It began again after the first line, and ended before it stored anything.
    IntentWriter(database, "r1", second.token)([(2, b"2b")])
    lost = database.call(lambda connection: lost_lines(connection, second))
    assert [(one.line, one.is_replaced) for one in lost] == [
        (b"2a", True),
        (b"3a", True),
        (b"2b", False),
    ]
