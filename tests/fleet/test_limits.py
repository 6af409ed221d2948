from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from goalrunner.batches.shared_pauses import AccountPause
from goalrunner.fleet import runs
from goalrunner.fleet.database import Connection, Database
from goalrunner.fleet.limits import (
    FleetPauses,
    LimitKind,
    list_limits,
    record_spending,
    runs_over_budget,
    set_limit,
)
from tests.support.fleet_rows import submit, taken, worker


def limit(
    database: Database,
    kind: LimitKind,
    name: str,
    most: int | None = None,
    cost: float | None = None,
) -> None:
    database.call(lambda connection: set_limit(connection, kind, name, most, cost))


def take(database: Database, worker_id: int, run_id: str) -> runs.TakenRun | None:
    return database.call(
        lambda connection: runs.take_run(connection, run_id, worker_id)
    )


def row(database: Database, run_id: str) -> dict[str, Any]:
    found = database.call(
        lambda connection: connection.execute(
            "SELECT *, not_before - clock_timestamp() AS hold FROM goal_fleet_runs"
            " WHERE run_id = %s",
            [run_id],
        ).fetchone()
    )
    assert found is not None
    return dict(found)


def change(database: Database, statement: str) -> None:
    database.call(lambda connection: connection.execute(statement.encode()))


def spend(database: Database, run_id: str, dollars: float) -> None:
    database.call(
        lambda connection: record_spending(
            connection, run_id, {"known_cost_usd": dollars}
        )
    )


@pytest.fixture
def holder(database: Database) -> int:
    for number in range(3):
        submit(database, f"r{number}")
    change(database, "UPDATE goal_fleet_runs SET account = 'claude'")
    return worker(database, "a")


@pytest.mark.parametrize(
    ("kind", "name"), [("queue", "default"), ("account", "claude")]
)
def test_no_more_runs_begin_than_a_limit_allows(
    database: Database, holder: int, kind: LimitKind, name: str
) -> None:
    limit(database, kind, name, 2)
    first = taken(database, holder, "r0")
    assert take(database, holder, "r1") is not None
    assert take(database, holder, "r2") is None
    held = row(database, "r2")
    assert held["state"] == "queued"
    assert held["reason"] == f"{kind} {name}: 2 runs are at work"
    assert held["hold"] < timedelta(seconds=20)
    database.call(lambda c: runs.end_run(c, first, "complete", 0, {}))
    assert take(database, holder, "r2") is not None


def test_a_limit_of_another_account_holds_nothing_back(
    database: Database, holder: int
) -> None:
    limit(database, "account", "codex", 0)
    limit(database, "queue", "night", 0)
    assert take(database, holder, "r0") is not None


def test_two_workers_at_once_do_not_exceed_a_limit(
    database: Database, database_url: str, holder: int
) -> None:
    import threading

    limit(database, "account", "claude", 1)
    results: list[bool] = []

    def try_to_take(run_id: str) -> None:
        with Database(database_url) as other:
            results.append(take(other, holder, run_id) is not None)

    threads = [
        threading.Thread(target=try_to_take, args=(f"r{number}",))
        for number in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False, False, True]


def test_spent_dollars_hold_runs_back_until_the_next_day(
    database: Database, holder: int
) -> None:
    limit(database, "account", "claude", cost=5)
    taken(database, holder, "r0")
    spend(database, "r0", 4.0)
    assert database.call(lambda c: runs_over_budget(c, holder)) == []
    taken(database, holder, "r1")
    spend(database, "r1", 1.5)
    assert database.call(lambda c: runs_over_budget(c, holder)) == ["r0", "r1"]
    assert take(database, holder, "r2") is None
    held = row(database, "r2")
    assert held["reason"] == "account claude: $5.50 of $5.00 are spent today"
    assert held["not_before"].astimezone(UTC).hour == 0
    change(database, "UPDATE goal_fleet_spending SET day = day - 1")
    assert take(database, holder, "r2") is not None


def test_each_dollar_counts_on_its_own_day(database: Database, holder: int) -> None:
    limit(database, "account", "claude", cost=100)
    spend(database, "r0", 3.0)
    change(database, "UPDATE goal_fleet_spending SET day = day - 1")
    spend(database, "r0", 3.5)
    spend(database, "r0", 5.0)
    (found,) = database.call(list_limits)
    assert found.cost_today == 2.0


def test_a_pause_of_an_account_holds_its_runs_back(
    database: Database, holder: int
) -> None:
    until = datetime.now(UTC) + timedelta(hours=2)
    pauses = FleetPauses(database, "r0")
    pauses.write("claude", AccountPause(until=until, reason="five hours", run_id="r0"))
    assert take(database, holder, "r1") is None
    held = row(database, "r1")
    assert held["reason"] == "account claude: five hours"
    assert held["not_before"] == until
    found = FleetPauses(database, "r2").read("claude")
    assert found is not None
    assert (found.until, found.reason) == (until, "five hours")
    assert pauses.read("codex") is None


def test_a_limit_can_be_lifted(database: Database, holder: int) -> None:
    limit(database, "queue", "default", 0)
    assert take(database, holder, "r0") is None
    limit(database, "queue", "default")
    assert take(database, holder, "r0") is not None


def test_a_run_that_is_held_back_is_ready_again_later(
    database: Database, holder: int
) -> None:
    # The table of the queue itself is not needed here.
    change(
        database,
        "CREATE TABLE procrastinate_jobs (queueing_lock text, status text)",
    )
    limit(database, "account", "claude", 0)
    assert take(database, holder, "r0") is None

    def ready(connection: Connection) -> list[str]:
        return [run.run_id for run in runs.ready_runs(connection)]

    assert database.call(ready) == ["r1", "r2"]
    change(database, "UPDATE goal_fleet_runs SET not_before = now() - interval '1 s'")
    assert database.call(ready) == ["r0", "r1", "r2"]


def test_a_run_past_its_deadline_does_not_begin(
    database: Database, holder: int
) -> None:
    change(
        database,
        "CREATE TABLE procrastinate_jobs (queueing_lock text, status text)",
    )
    taken(database, holder, "r0")
    change(database, "UPDATE goal_fleet_runs SET deadline = now() - interval '1 s'")
    assert database.call(runs.ready_runs) == []
    assert row(database, "r1")["status"] == "skipped"
    cancelled = database.call(lambda c: runs.cancelled_runs(c, holder))
    assert cancelled == {"r0": "its deadline is over"}
