"""`goal batch --fleet`: a batch that the workers of a fleet run, and its live table."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeVar

from goalrunner.batches.displays import BatchDisplay, open_display
from goalrunner.batches.rows import BatchMoment
from goalrunner.batches.submission import Submission
from goalrunner.cli import output
from goalrunner.core.errors import ExitCode, UsageError, some
from goalrunner.fleet.batch_history import FleetHistory, fleet_plan
from goalrunner.fleet.database import (
    Database,
    DatabaseUnreachable,
    database_url,
    require_schema,
)
from goalrunner.fleet.queue import enqueue_now
from goalrunner.fleet.settings import fleet_settings
from goalrunner.fleet.store import FleetStore
from goalrunner.fleet.submission import SubmitOptions, insert_runs, new_ids, new_runs

T = TypeVar("T")

_PAUSE = 1.0
"""Seconds between two looks at the rows of a batch."""
_PATIENCE = 60.0
"""Seconds for a database to answer again: the view ends then, and the runs go on."""
_OTHER_WAYS = {
    "--jobs": "goal fleet worker --jobs N, or goal fleet limit --queue NAME --runs N",
    "--cost": "goal fleet limit --account NAME --cost-per-day USD",
    "--tokens": "goal fleet limit --account NAME --cost-per-day USD",
    "--max-failures": "goal fleet cancel --batch NAME ends a batch",
    "--retries": "goal fleet retry RUN; workers take a run again that was lost",
    "--resume": "goal watch BATCH follows it; goal fleet retry RUN queues a run again",
    "--apply": "goal export RUN --patch | git apply, for each of its runs",
}
"""What is typed instead of an option that is for a batch of one machine."""


def refuse_machine_options(options: Mapping[str, object]) -> None:
    """Raise UsageError for options that a fleet does not have."""
    useless = [name for name, value in options.items() if value]
    if useless:
        ways = [f"instead of {name}: {_OTHER_WAYS[name]}" for name in useless]
        raise UsageError(f"{some(useless)}: not used with --fleet", "\n".join(ways))


@dataclass(frozen=True)
class FleetBatch:
    """A batch of a fleet."""

    name: str
    db: str | None = None
    """The URL of the database; None: that of the environment."""
    at_least: int | None = None

    def submit(self, submission: Submission, options: SubmitOptions) -> None:
        """Queue the goals: all of them, or none. Raise GoalError."""
        options = replace(options, batch=self.name)
        with self._database() as database:
            self._refuse_taken(database)
            store = FleetStore(database.call(fleet_settings).store)
            run_ids = database.call(
                lambda connection: new_ids(connection, submission.entries)
            )
            new = new_runs(submission, store, options, run_ids)
            database.call(lambda connection: insert_runs(connection, new, options))
            asyncio.run(enqueue_now(database))

    def follow(self, display: BatchDisplay) -> tuple[BatchMoment, bool]:
        """Show the batch until its end or Ctrl-C; return how it is, and whether it was
        Ctrl-C. Raise GoalError.
        """
        with self._database() as database, closing(display):
            plan = database.call(
                lambda connection: fleet_plan(connection, self.name, self.at_least)
            )
            history = FleetHistory(plan)
            moment = history.moment()
            was_interrupted = False
            try:
                display.begin(moment)
                while not history.is_over:
                    moment = self._look(database, history, display)
                    display.on_look(moment)
                    if not history.is_over:
                        # It raises ReaderGone if the reader of a pipe has closed it.
                        output.say("")
                        time.sleep(_PAUSE)
            except KeyboardInterrupt:
                was_interrupted = True
            last = replace(moment, is_driven=not history.is_over)
            display.finish(last)
        return last, was_interrupted

    def _look(
        self, database: Database, history: FleetHistory, display: BatchDisplay
    ) -> BatchMoment:
        happened = _patiently(
            lambda: database.call(
                lambda connection: history.look(connection, self.name)
            )
        )
        moment = history.moment()
        for event, state in happened:
            display.on_event(event, replace(moment, state=state))
        return moment

    def _refuse_taken(self, database: Database) -> None:
        database.call(require_schema)
        earlier_plan = database.call(
            lambda connection: fleet_plan(connection, self.name, None)
        )
        if earlier_plan.entries:
            raise UsageError(
                f"there is a batch {self.name} in the fleet already",
                f"goal watch {self.name} follows it; or choose another name: --name",
            )

    def _database(self) -> Database:
        return Database(database_url(self.db, os.environ))


def _patiently(ask: Callable[[], T]) -> T:
    """Return an answer of the database, which may be away for a while."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return ask()
        except DatabaseUnreachable:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE)


def watch_fleet_batch(batch: FleetBatch) -> int:
    """Show a batch until it ends, and return its exit code; Ctrl-C ends the view."""
    moment, was_interrupted = batch.follow(open_display(sys.stdout))
    return int(ExitCode.INTERRUPTED) if was_interrupted else moment.exit_code
