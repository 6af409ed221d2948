"""`goal list` and `goal status RUN`, without Typer."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.cli import output, runs
from goalrunner.core.errors import RunNotFound, UsageError
from goalrunner.records import run_index
from goalrunner.reports.summary import Summary

if TYPE_CHECKING:
    from goalrunner.records.run_folder import RunFolder


def list_runs(*, json: bool = False) -> int:
    """Print the runs, newest first; return 0."""
    from goalrunner.reports.listing import listing_text

    found = [Summary(values).corrected for values in run_index.list_runs(runs.home())]
    if json:
        output.say_json(found)
        return 0
    if not found:
        output.complain(f"No runs yet in {runs.home()}. To start one: goal run goal.toml")
    output.say(listing_text(found, now=datetime.now(UTC), columns=output.columns()))
    return 0


def print_status(reference: str | None, *, json: bool = False) -> int:
    """Print the state of a run without calling a model; return the run's exit code, 4 if it has not ended."""
    from goalrunner.reports.status import status_text

    folder = _find(reference)
    summary = Summary(run_index.read_summary(folder))
    if json:
        output.say_json({**summary.corrected, "path": str(folder.path)})
    else:
        output.say(status_text(summary, now=datetime.now(UTC), folder=str(folder.path), columns=output.columns()))
    return summary.exit_code


def _find(reference: str | None) -> RunFolder:
    try:
        return runs.find(reference)
    except RunNotFound:
        if reference is not None and runs.is_file(reference):
            from goalrunner.transcripts import check_format

            check_format(Path(reference))
            hint = f'goal status {reference} --objective "..." --judge MODEL, or --goal FILE'
            raise UsageError(f"{reference} is a file: give the objective to judge it by", hint) from None
        if reference is not None and ("/" in reference or "." in reference):  # no id has these
            raise UsageError(f"{reference}: no such run or file", "goal list shows the runs") from None
        raise
