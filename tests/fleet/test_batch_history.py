"""What the rows of a fleet's runs say about their batch."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from goalrunner.fleet.batch_history import (
    FleetHistory,
    RunProgress,
    find_fleet_batch,
    fleet_plan,
    progress_events,
)
from goalrunner.fleet.database import Database
from goalrunner.fleet.queue import prepare_database
from goalrunner.fleet.runs import cancel_fleet_batch
from tests.support.fleet_rows import taken, worker

BEGUN = datetime(2026, 11, 27, 12, tzinfo=UTC)
QUEUED = RunProgress("r1", "queued", "", 0, "", None, None, "")
RUNNING = replace(QUEUED, state="running", token=1, started_at=BEGUN)
COMPLETE = replace(RUNNING, state="ended", status="complete", ended_at=BEGUN)
DEAD = replace(RUNNING, state="dead", reason="three times", ended_at=BEGUN)
SKIPPED = replace(QUEUED, state="ended", status="skipped", reason="too late")
CANCELLED = replace(QUEUED, state="ended", status="cancelled", reason="not needed")


@pytest.mark.parametrize(
    ("earlier", "row", "events"),
    [
        (None, QUEUED, []),
        (None, RUNNING, ["entry_started"]),
        (QUEUED, RUNNING, ["entry_started"]),
        (RUNNING, RUNNING, []),
        # Between two looks, a run can begin and end.
        (QUEUED, COMPLETE, ["entry_started", "complete"]),
        (RUNNING, COMPLETE, ["complete"]),
        (RUNNING, DEAD, ["failed"]),
        (QUEUED, SKIPPED, ["entry_skipped"]),
        (QUEUED, CANCELLED, ["cancelled"]),
        # Its worker was lost, and nothing has it, or another one.
        (RUNNING, replace(QUEUED, started_at=BEGUN), ["stopped"]),
        (RUNNING, replace(RUNNING, token=3), ["stopped", "entry_started"]),
        # A person has queued it again.
        (DEAD, replace(QUEUED, started_at=BEGUN), ["stopped"]),
        (DEAD, replace(RUNNING, token=2), ["stopped", "entry_started"]),
        (COMPLETE, COMPLETE, []),
    ],
)
def test_two_looks_at_a_run_tell_what_has_happened(
    earlier: RunProgress | None, row: RunProgress, events: list[str]
) -> None:
    happened = progress_events("1", earlier, row)
    assert [getattr(event, "status", event.type) for event in happened] == events
    assert [getattr(event, "stopped", False) for event in happened] == [
        name == "stopped" for name in events
    ]


def submit(database: Database, run_id: str, batch: str, after: str = "{}") -> None:
    database.call(
        lambda connection: connection.execute(
            "INSERT INTO goal_fleet_runs"
            " (run_id, batch, name, objective, job, after, labels)"
            " VALUES (%s, %s, %s, 'Make it.', '{}', %s, '{gpu}')",
            [run_id, batch, f"goal {run_id}", after],
        )
    )


def test_a_batch_is_found_by_the_beginning_of_its_name(database: Database) -> None:
    for run_id, batch in (("r1", "night"), ("r2", "night-2"), ("r3", "day")):
        submit(database, run_id, batch)

    def found(reference: str) -> str | None:
        return database.call(lambda connection: find_fleet_batch(connection, reference))

    assert [found(name) for name in ("d", "night", "x")] == ["day", "night", None]
    with pytest.raises(Exception, match="several batches"):
        found("ni")


async def test_a_batch_shows_why_its_runs_do_not_begin(database: Database) -> None:
    await prepare_database(database.url)
    submit(database, "r1", "night")
    submit(database, "r2", "night", "{r1}")
    plan = database.call(lambda connection: fleet_plan(connection, "night", None))
    assert [entry.after for entry in plan.entries] == [(), ("1",)]
    history = FleetHistory(plan)

    def look() -> list[str]:
        happened = database.call(lambda connection: history.look(connection, "night"))
        return [event.type for event, _ in happened]

    worker(database, "without the label")
    assert look() == []
    assert "none that can take it" in history.holds["1"]
    assert history.holds["2"] == "after goal r1"
    taken(database, worker(database, "w"))
    assert look() == ["entry_started"]
    assert history.holds["1"] == ""
    counts = database.call(
        lambda connection: cancel_fleet_batch(connection, "night", "not needed")
    )
    assert counts == (1, 1)
    assert look() == ["entry_ended"]
    assert not history.is_over
