"""`goal status RUN`: the state of a run. Reads its summary alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.cli import output
from goalrunner.errors import RunNotFound, UsageError

if TYPE_CHECKING:
    from goalrunner.runs import RunFolder


def print_status(reference: str | None, *, json: bool = False) -> int:
    """Print the state of a run without calling a model; gives the run's exit code, and 4 while it has not ended."""
    from datetime import UTC, datetime
    from json import loads

    from goalrunner.reports.outcome import json_text
    from goalrunner.reports.status import status_text
    from goalrunner.reports.summary import Summary

    folder = _find(reference)
    try:
        values = loads(folder.summary.read_bytes())
    except (OSError, ValueError) as error:
        values = {"run_id": folder.run_id, "status": "unreadable", "message": f"{folder.summary}: {error}"}
    if not isinstance(values, dict):
        values = {"run_id": folder.run_id, "status": "unreadable", "message": f"{folder.summary}: no JSON object"}
    summary = Summary(values)
    if json:
        output.say(json_text({**values, "status": summary.status, "path": str(folder.path)}))
    else:
        columns = output.columns(sys.stdout)
        output.say(status_text(values, now=datetime.now(UTC), folder=str(folder.path), columns=columns))
    return summary.exit_code


def _find(reference: str | None) -> RunFolder:
    from goalrunner import runs

    try:
        return runs.find_run(runs.goal_home(os.environ), reference)
    except RunNotFound:
        if reference is not None and Path(reference).is_file():
            hint = f'goal status {reference} --objective "..." --judge MODEL, or --goal FILE'
            raise UsageError(f"{reference} is a file; a judge needs to know by what to judge it", hint) from None
        raise
