"""`goal cancel BATCH`: the end of a batch and of its runs, for good."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from goalrunner.app.decisions import cancel_run
from goalrunner.app.previous_run import load_state
from goalrunner.app.sandbox import person
from goalrunner.batches.batch_folder import BatchFolder, event_time, find_batch
from goalrunner.batches.history import BatchStopped, EntryEnded, EntryState
from goalrunner.batches.lines import first_facts
from goalrunner.batches.rows import BatchMoment, batch_rows
from goalrunner.batches.run_figures import moment_of
from goalrunner.batches.table import total_facts
from goalrunner.batches.values import result_value
from goalrunner.cli import dialog, output
from goalrunner.core.errors import GoalError, RecordError, UsageError
from goalrunner.core.outcome import FINAL
from goalrunner.records.files import write_whole
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.reports import layout

_PATIENCE = 60.0
"""Seconds in which a scheduler ends its runs, each of which may take ten seconds."""


def cancel_named_batch(
    home: Path, reference: str, reason: str, *, yes: bool, as_json: bool
) -> int:
    """End a batch permanently, and print how it ended; return 0.

    Ask first, and return 1 if the answer is no. Raise UsageError if it has ended.
    """
    folder = find_batch(home, reference)
    moment = moment_of(folder)
    # A second request is no mistake: the first one may have been interrupted.
    if moment.status != "cancelled":
        _refuse_over(moment)
        if not yes and not _confirms(moment):
            return 1
    if moment.is_driven or moment.status != "cancelled":
        cancel_batch(folder, reason)
        moment = moment_of(folder)
    if as_json:
        output.say(result_value(moment))
    else:
        stop = moment.state.stopped
        message = stop.reason if stop else ""
        output.say(f"{moment.status}  {folder.batch_id}  {message}\n")
    return 0


def _refuse_over(moment: BatchMoment) -> None:
    if not moment.is_driven and moment.status in ("complete", "incomplete"):
        batch_id = moment.state.plan.batch_id
        raise UsageError(
            f"batch {batch_id} has ended already",
            f"goal status {batch_id} shows how",
        )


def _confirms(moment: BatchMoment) -> bool:
    lines = [*first_facts(moment), *total_facts(moment, batch_rows(moment))]
    output.complain(layout.laid_out(lines, output.columns(sys.stderr)))
    return dialog.confirmed(
        "End this batch and its runs for good? They cannot be resumed. [y/N]",
        "goal cancel asks before it ends a batch",
    )


def cancel_batch(folder: BatchFolder, reason: str = "") -> None:
    """End the scheduler of a batch and its runs permanently; also without a scheduler.

    Raise RecordError if the scheduler does not end.
    """
    message = f"cancelled by {person()}"
    if reason:
        message += f": {reason}"
    if folder.is_driven:
        # A file stays: the batch ends even if this process is killed while it waits.
        write_whole(folder.cancellation, message.encode())
        _await_end(folder)
    # Under the lock, no `goal batch --resume` starts the runs again meanwhile.
    with folder.writing() as log:
        stop = log.state.stopped
        if stop is None or not stop.cancelled:
            log.append(BatchStopped(at=event_time(), reason=message, cancelled=True))
        # Of a scheduler that was killed, the runs are open; else none is left.
        for key, entry in log.state.entries.items():
            if entry.run_id and entry.status != "ended":
                log.append(_cancelled_entry(folder, key, entry, reason))


def _await_end(folder: BatchFolder) -> None:
    until = time.monotonic() + _PATIENCE
    while folder.is_driven:
        if time.monotonic() > until:
            raise RecordError(
                f"batch {folder.batch_id} is still active, {_PATIENCE:.0f} s after "
                "the request to end",
                f"goal watch {folder.batch_id} shows what it does",
            )
        time.sleep(0.1)


def _cancelled_entry(
    folder: BatchFolder, key: str, entry: EntryState, reason: str
) -> EntryEnded:
    """End the run of an entry, and return the event."""
    run = RunFolder(folder.home / RUNS / entry.run_id)
    status, message = "cancelled", "it never began"
    if run.events.exists():
        try:
            state = load_state(run)
            if state.stop_reason not in FINAL:
                state = cancel_run(run, reason)
            status, message = state.status.value, state.message
        except GoalError as error:
            # The other runs are ended as well.
            status, message = "failed", error.message
    return EntryEnded(at=event_time(), key=key, status=status, message=message)
