"""The runs of a fleet in `goal list`, which never waits long for the database."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from goalrunner.core.run_summary import RunSummary
from goalrunner.fleet.database import Database, database_url, shown_url
from goalrunner.fleet.listing import FleetRun, list_runs, runs_table

_SHOWN = 20
_LOOKED_AT = 200
"""Runs that are read, of which filters choose."""
_PATIENCE = 1.0
"""Seconds to connect, and seconds for the query."""


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
