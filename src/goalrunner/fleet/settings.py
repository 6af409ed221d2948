"""The settings of a fleet, which all its machines share."""

from __future__ import annotations

from dataclasses import dataclass, fields

from goalrunner.core.errors import UsageError
from goalrunner.fleet.database import Connection


@dataclass(frozen=True)
class FleetSettings:
    """Where a fleet keeps its files; empty: not set."""

    store: str = ""
    """The URL of the store."""
    root: str = ""
    """The folder of runs on each machine."""


_SET = """\
INSERT INTO goal_fleet_settings (name, value) VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""


def fleet_settings(connection: Connection) -> FleetSettings:
    """Return the settings."""
    rows = connection.execute("SELECT name, value FROM goal_fleet_settings").fetchall()
    values = {row["name"]: row["value"] for row in rows}
    names = [field.name for field in fields(FleetSettings)]
    return FleetSettings(**{name: values.get(name, "") for name in names})


def change_settings(connection: Connection, settings: FleetSettings) -> None:
    """Write the settings.

    Raise UsageError for another root or store while runs are at work: a run that goes
    on elsewhere would not find its files.
    """
    earlier = fleet_settings(connection)
    moves = earlier.store and earlier != settings
    if moves and has_open_runs(connection):
        raise UsageError(
            "the store and the root cannot change while runs are queued or running",
            "goal fleet status shows them; goal fleet cancel RUN ends one",
        )
    for name, value in vars(settings).items():
        connection.execute(_SET, [name, value])


def has_open_runs(connection: Connection) -> bool:
    """Return whether a run is queued or running."""
    row = connection.execute(
        "SELECT EXISTS (SELECT FROM goal_fleet_runs "
        "WHERE state IN ('queued', 'running')) AS found"
    ).fetchone()
    return row is not None and bool(row["found"])
