"""The permanent end of runs and batches of a fleet, from any machine."""

from __future__ import annotations

from goalrunner.core.errors import RunNotFound, UsageError
from goalrunner.fleet.batch_history import find_fleet_batch
from goalrunner.fleet.database import Database
from goalrunner.fleet.listing import find_fleet_run, refuse_unless
from goalrunner.fleet.runs import cancel_fleet_batch, cancel_fleet_run


def cancel_run_named(database: Database, reference: str, reason: str) -> str:
    """Cancel a run; return the line that says how. Raise UsageError if it is over."""
    run = database.call(lambda connection: find_fleet_run(connection, reference))
    refuse_unless(
        run,
        ("queued", "running"),
        "nothing is to be cancelled",
        f"goal fleet status {run.run_id}",
    )
    was_queued = database.call(
        lambda connection: cancel_fleet_run(connection, run.run_id, reason)
    )
    word = "is cancelled" if was_queued else "ends within a few seconds"
    return f"run {run.run_id} {word}\n"


def cancel_fleet_batch_named(database: Database, reference: str, reason: str) -> str:
    """Cancel the runs of a batch that are not over; return the line that says how.

    Raise RunNotFound, and UsageError if all are over.
    """
    batch = database.call(lambda connection: find_fleet_batch(connection, reference))
    if batch is None:
        raise RunNotFound(
            f"the fleet has no batch {reference}", "goal fleet status lists the runs"
        )
    queued, running = database.call(
        lambda connection: cancel_fleet_batch(connection, batch, reason)
    )
    if not queued + running:
        raise UsageError(
            f"all runs of batch {batch} have ended already",
            f"goal fleet status --batch {batch}",
        )
    line = f"batch {batch}: {queued} queued runs are cancelled"
    if running:
        line += f", {running} running ones end within a few seconds"
    return f"{line}\n"
