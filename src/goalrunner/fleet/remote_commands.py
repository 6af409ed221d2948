"""Commands about a run that is at work on another machine of the fleet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.app.sandbox import person
from goalrunner.batches.names import named_batch
from goalrunner.cli import dialog, output
from goalrunner.core.errors import GoalError, RunNotFound, UsageError
from goalrunner.fleet.batch_history import find_fleet_batch
from goalrunner.fleet.cancelling import cancel_fleet_batch_named, cancel_run_named
from goalrunner.fleet.database import Database, database_url
from goalrunner.fleet.listing import find_fleet_run
from goalrunner.fleet.remote_runs import ask_worker, fetch_run, is_fetched
from goalrunner.fleet.settings import fleet_settings
from goalrunner.fleet.store import FleetStore
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_search import find_run
from goalrunner.reports.terminal_text import printable_line

_PATIENCE = 20.0
"""Seconds for a worker to perform a command: it looks every few seconds."""


def local_run(home: Path, reference: str) -> RunFolder | None:
    """Return a run of this machine; None if it is one of the fleet."""
    try:
        folder = find_run(home, reference)
    except RunNotFound:
        return None
    return None if is_fetched(folder) else folder


def find_here_or_fetch(
    home: Path, reference: str, environ: Mapping[str, str]
) -> RunFolder:
    """Return the folder of a run of this machine, or fetch that of one of the fleet.

    Without the fleet, what was fetched earlier is used. Raise GoalError.
    """
    folder = local_run(home, reference)
    if folder is not None:
        return folder
    try:
        with Database(database_url(None, environ)) as database:
            run = database.call(
                lambda connection: find_fleet_run(connection, reference)
            )
            store = FleetStore(database.call(fleet_settings).store)
            return fetch_run(database, store, run.run_id, home)
    except GoalError as error:
        try:
            earlier = find_run(home, reference)
        except RunNotFound as unknown:
            # An unknown run has the same error as without a fleet. Of another one, the
            # fleet knows why it cannot be shown.
            raise unknown if isinstance(error, RunNotFound) else error from None
        output.complain(f"run {earlier.run_id} is shown as it was fetched before")
        return earlier


def performed_by_worker(
    home: Path, reference: str | None, arguments: Sequence[str]
) -> bool:
    """Let the worker of a run perform a command.

    Return False for a run of this machine. `arguments` are those of `goal`. Raise
    UsageError if no worker has the run.
    """
    if reference is None or local_run(home, reference) is not None:
        return False
    with Database(database_url(None, os.environ)) as database:
        try:
            run = database.call(
                lambda connection: find_fleet_run(connection, reference)
            )
        except RunNotFound:
            return False
        if run.state != "running":
            raise UsageError(
                f"run {run.run_id} is {run.word}: no worker has it now",
                f"goal fleet retry {run.run_id} queues it again",
            )
        whole = [run.run_id if word == reference else word for word in arguments]
        answer = ask_worker(database, run.run_id, whole, person(), _PATIENCE)
    if answer is None:
        output.complain(
            f"worker {run.worker} has not answered yet; "
            f"goal fleet status {run.run_id} shows the run"
        )
    else:
        output.say(answer)
    return True


def refuse_applying(home: Path, reference: str) -> None:
    """Raise UsageError for a run of the fleet, whose workspace is not here."""
    if named_batch(home, reference) or local_run(home, reference) is not None:
        return
    with Database(database_url(None, os.environ)) as database:
        try:
            run = database.call(
                lambda connection: find_fleet_run(connection, reference)
            )
        except RunNotFound:
            # It has the same error as without a fleet.
            return
    raise UsageError(
        f"run {run.run_id} is one of the fleet, so its workspace is not here",
        f"in your clone: goal export {run.run_id} --patch | git apply --3way",
    )


def cancelled_in_fleet(
    home: Path, reference: str, reason: str, *, yes: bool, as_json: bool
) -> int | None:
    """End a run or a batch of the fleet permanently; return the exit code.

    Ask first. Return None for a run of this machine, and for an unknown one.
    """
    if local_run(home, reference) is not None:
        return None
    with Database(database_url(None, os.environ)) as database:
        cancel, name = cancel_run_named, reference
        try:
            run = database.call(
                lambda connection: find_fleet_run(connection, reference)
            )
            name, what = run.run_id, f"run {run.run_id}: {run.objective}"
        except RunNotFound:
            batch = database.call(
                lambda connection: find_fleet_batch(connection, reference)
            )
            if batch is None:
                return None
            cancel, name, what = cancel_fleet_batch_named, batch, f"batch {batch}"
        if not yes and not _confirms(what):
            return 1
        words = f"cancelled by {person()}"
        line = cancel(database, name, f"{words}: {reason}" if reason else words)
    output.say({"name": name, "message": line.strip()} if as_json else line)
    return 0


def _confirms(what: str) -> bool:
    output.complain(printable_line(what))
    return dialog.confirmed(
        "End it in the fleet for good? It cannot be resumed. [y/N]",
        "goal cancel asks before it ends a run",
    )
