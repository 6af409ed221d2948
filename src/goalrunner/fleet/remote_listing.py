"""Runs and batches of a fleet in `goal list` and `goal status`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from goalrunner.batches.rows import BatchMoment
from goalrunner.core.errors import RunNotFound
from goalrunner.core.run_summary import RunSummary
from goalrunner.fleet.batch_history import FleetHistory, find_fleet_batch, fleet_plan
from goalrunner.fleet.database import (
    Connection,
    Database,
    DatabaseUnreachable,
    database_url,
    shown_url,
)
from goalrunner.fleet.listing import FleetRun, find_fleet_run, list_runs, runs_table

_SHOWN = 20
_LOOKED_AT = 200
"""Runs that are read, of which filters choose."""
_PATIENCE = 1.0
"""Seconds to connect, and seconds for the query: `goal list` never waits long."""


def listed_fleet_runs(
    chosen: Callable[[RunSummary], bool], limit: int | None
) -> list[FleetRun]:
    """Return the runs at work, then those that wait or ended last.

    Raise GoalError within two seconds if the database does not answer.
    """
    url = database_url(None, os.environ)
    with Database(url, _PATIENCE, _PATIENCE) as database:
        listed = database.call(lambda connection: list_runs(connection, _LOOKED_AT))
    matching = [run for run in listed if chosen(_figures(run))]
    return matching[: limit or _SHOWN]


def _figures(run: FleetRun) -> RunSummary:
    return RunSummary(
        run_id=run.run_id,
        objective=run.objective,
        status=run.word,
        started_at=run.started_at or run.submitted_at,
    )


def fleet_section(runs: Sequence[FleetRun], columns: int | None) -> str:
    """Return the section below the runs of this machine; empty without runs."""
    if not runs:
        return ""
    heading = f"\nfleet {shown_url(database_url(None, os.environ))}\n"
    more = ""
    if len(runs) >= _SHOWN:
        more = "goal fleet status --all lists all runs\n"
    return heading + runs_table(runs, columns) + more


def fleet_values(runs: Sequence[FleetRun]) -> list[dict[str, Any]]:
    """Return runs for a list in JSON, beside the runs of this machine."""
    return [{"source": "fleet", **asdict(run), "status": run.word} for run in runs]


def batch_in_fleet(reference: str) -> BatchMoment | None:
    """Return how a batch is now.

    None if a run has that name, if there is no such batch, and if the database does not
    answer.
    """
    try:
        with Database(database_url(None, os.environ)) as database:
            return database.call(
                lambda connection: _batch_moment(connection, reference)
            )
    except DatabaseUnreachable:
        # A run that was fetched before can still be shown.
        return None


def _batch_moment(connection: Connection, reference: str) -> BatchMoment | None:
    """Return how a batch is now; None if it is a run, or if there is none."""
    try:
        find_fleet_run(connection, reference)
    except RunNotFound:
        name = find_fleet_batch(connection, reference)
    else:
        return None
    if name is None:
        return None
    history = FleetHistory(fleet_plan(connection, name, None))
    history.look(connection, name)
    return replace(history.moment(), is_driven=not history.is_over)
