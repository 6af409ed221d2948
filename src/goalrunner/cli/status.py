"""`goal status RUN` and `goal list`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.cli import output
from goalrunner.core.errors import RunNotFound, UsageError

if TYPE_CHECKING:
    from goalrunner.records.run_folder import RunFolder


def print_status(reference: str | None, *, json: bool = False) -> int:
    """Print the state of a run without calling a model; gives the run's exit code, and 4 while it has not ended."""
    from datetime import UTC, datetime

    from goalrunner.records.run_index import read_summary
    from goalrunner.reports.status import status_text
    from goalrunner.reports.summary import Summary, json_text

    folder = _find(reference)
    values = read_summary(folder)
    summary = Summary(values)
    if json:
        output.say(json_text({**summary.told, "path": str(folder.path)}))
    else:
        columns = output.columns(sys.stdout)
        output.say(status_text(values, now=datetime.now(UTC), folder=str(folder.path), columns=columns))
    return summary.exit_code


def _find(reference: str | None) -> RunFolder:
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run

    try:
        return find_run(goal_home(os.environ), reference)
    except RunNotFound:
        if reference is not None and os.path.isfile(reference):  # noqa: PTH113 - never raises
            from goalrunner.transcripts import check_format

            check_format(Path(reference))
            hint = f'goal status {reference} --objective "..." --judge MODEL, or --goal FILE'
            raise UsageError(f"{reference} is a file: give the objective to judge it by", hint) from None
        if reference is not None and ("/" in reference or "." in reference):  # no id has these
            raise UsageError(f"{reference}: no such run or file", "goal list shows the runs") from None
        raise


def list_runs(*, json: bool = False) -> int:
    """Print the runs as a table, or their summaries as a JSON list; gives exit code 0."""
    from datetime import UTC, datetime

    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import list_runs
    from goalrunner.reports.listing import listing_text
    from goalrunner.reports.summary import Summary, json_text

    home = goal_home(os.environ)
    found = [Summary(values).told for values in list_runs(home)]
    if json:
        output.say(json_text(found))
        return 0
    if not found:
        output.complain(f"No runs yet in {home}. To start one: goal run goal.toml")
    output.say(listing_text(found, now=datetime.now(UTC), columns=output.columns(sys.stdout)))
    return 0
