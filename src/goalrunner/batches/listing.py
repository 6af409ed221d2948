"""Batches that are named or listed: `goal status BATCH` and `goal list --batch`."""

from __future__ import annotations

from pathlib import Path

from goalrunner.batches.batch_folder import BatchFolder, batch_names, find_batch
from goalrunner.batches.lines import closing_facts, first_facts
from goalrunner.batches.names import BATCHES
from goalrunner.batches.rows import BatchMoment, batch_rows, batch_totals
from goalrunner.batches.run_figures import moment_of
from goalrunner.batches.table import counts_text, table_lines
from goalrunner.batches.values import result_value, summary_value
from goalrunner.cli import output
from goalrunner.core.errors import RecordError
from goalrunner.reports import figures
from goalrunner.reports.run_table import cost_cell
from goalrunner.reports.terminal_text import lines_text, table

# The counts of a batch always have these columns.
_NARROWEST_COUNTS = 20


def print_batch(home: Path, reference: str, *, json: bool = False) -> int:
    """Print a batch with a row for each entry, and return its exit code.

    Raise RunNotFound and RecordError.
    """
    return print_moment(moment_of(find_batch(home, reference)), json=json)


def print_moment(moment: BatchMoment, *, json: bool = False) -> int:
    """Print a batch as it is at one moment, and return its exit code."""
    if json:
        output.say(result_value(moment))
        return moment.exit_code
    rows = batch_rows(moment)
    output.say(output.terminal_text(first_facts(moment)))
    output.say(lines_text(table_lines(rows, output.columns())))
    output.say(output.terminal_text(closing_facts(moment, rows)))
    return moment.exit_code


def list_batches(home: Path, *, json: bool = False) -> int:
    """Print all batches, newest first; return 0."""
    moments = []
    for name in batch_names(home):
        try:
            moments.append(moment_of(BatchFolder(home / BATCHES / name)))
        except RecordError as error:
            # One damaged batch does not hide the others.
            output.complain(f"Warning: batch {name}: {error.message}")
    moments.sort(key=lambda moment: moment.state.plan.created_at, reverse=True)
    if json:
        output.say([summary_value(moment, batch_rows(moment)) for moment in moments])
        return 0
    if not moments:
        output.complain(f"No batches yet in {home}. To start one: goal batch GOALS")
        return 0
    cells = [list(_cells(moment)) for moment in moments]
    heading = ["BATCH", "STATUS", "COMPLETE", "COST", "SUBMITTED", "GOALS"]
    lines = table([heading, *cells], output.columns(), _NARROWEST_COUNTS)
    output.say(lines_text(lines))
    return 0


def _cells(moment: BatchMoment) -> list[str]:
    """Return the cells of a batch in the list of batches."""
    state = moment.state
    totals = batch_totals(batch_rows(moment))
    return [
        state.plan.batch_id,
        moment.status,
        f"{state.complete}/{len(state.entries)}",
        cost_cell(totals.spent),
        figures.age(state.plan.created_at, moment.now),
        counts_text(totals),
    ]
