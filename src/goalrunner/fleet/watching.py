"""A run of a fleet as it goes on: `goal fleet logs`, and `goal watch`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from goalrunner.cli.drive import open_progress
from goalrunner.core.errors import ExitCode, RunNotFound
from goalrunner.core.run_summary import NOT_ENDED
from goalrunner.fleet.batch_following import FleetBatch, watch_fleet_batch
from goalrunner.fleet.batch_history import find_fleet_batch
from goalrunner.fleet.database import Database, database_url
from goalrunner.fleet.listing import find_fleet_run
from goalrunner.fleet.remote_commands import local_run
from goalrunner.fleet.remote_runs import follow
from goalrunner.reports.show import show_live


def show_log(
    database: Database, run_id: str, *, follows: bool, verbose: bool = False
) -> bool:
    """Show what a run has done so far, or until it ends.

    Return False after Ctrl-C, which ends only the view.
    """

    def is_at_work() -> bool:
        run = database.call(lambda connection: find_fleet_run(connection, run_id))
        return follows and run.state in ("running", "queued")

    progress = open_progress(sys.stdout, verbose=verbose)
    with progress:
        try:
            show_live(
                follow(database, run_id, is_at_work),
                progress,
                folder=f"run {run_id} of the fleet",
                lost=lambda: False,
            )
        except KeyboardInterrupt:
            progress.leave()
            return False
    return True


def watched_in_fleet(home: Path, reference: str, *, verbose: bool) -> int | None:
    """Follow a run or a batch of the fleet; return the exit code of the command.

    Return None for a run of this machine, and for an unknown one.
    """
    if local_run(home, reference) is not None:
        return None
    with Database(database_url(None, os.environ)) as database:
        try:
            run = database.call(
                lambda connection: find_fleet_run(connection, reference)
            )
        except RunNotFound:
            batch = database.call(
                lambda connection: find_fleet_batch(connection, reference)
            )
            return None if batch is None else watch_fleet_batch(FleetBatch(batch))
        if not show_log(database, run.run_id, follows=True, verbose=verbose):
            return int(ExitCode.INTERRUPTED)
        ended = database.call(lambda connection: find_fleet_run(connection, run.run_id))
    return NOT_ENDED if ended.exit_code is None else ended.exit_code
