"""The run that a command line names; `goal list` and `goal status RUN`, without Typer."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.cli import output
from goalrunner.core.errors import RunNotFound, UsageError
from goalrunner.core.run_summary import RunSummary
from goalrunner.records import run_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from goalrunner.core.events import Record
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.run_state import RunState
    from goalrunner.records.run_folder import RunFolder


def home() -> Path:
    """Return GOAL_HOME."""
    return run_folder.goal_home(os.environ)


def find(reference: str | None) -> RunFolder:
    """Return the folder of a run, by id, its beginning or path; None is the newest run. Raise RunNotFound."""
    return run_folder.find_run(home(), reference)


def records(folder: RunFolder) -> Iterator[Record]:
    """Return the records of a run's log."""
    from goalrunner.records.event_log import read_records

    return read_records(folder.events)


def result(folder: RunFolder) -> tuple[RunState, GoalOutcome]:
    """Return the state at the end of a run's log, and the outcome with its evidence. Raise UsageError for an empty log."""
    from goalrunner.core.summary import evidence_of, outcome_of

    state, rows = evidence_of(records(folder))
    if state is None:
        raise UsageError(f"the log of run {folder.run_id} has no events", f"goal show {folder.run_id} --path")
    return state, outcome_of(state, str(folder.path)).model_copy(update={"evidence": rows})


def is_file(path: Any) -> bool:
    """Return whether a path is a file. Never raise, also for paths that cannot exist."""
    return os.path.isfile(path)  # noqa: PTH113


def list_runs(*, json: bool = False, chosen: Callable[[RunSummary], bool] = bool, limit: int | None = None) -> int:
    """Print the runs, newest first; return 0."""
    from goalrunner.reports.tables import listing_text

    known = run_folder.list_runs(home())
    found = [values for values in known if chosen(RunSummary.read(values))][:limit]
    if not json and not found:
        none = f"No runs yet in {home()}. To start one: goal run goal.toml"
        output.complain("No run matches. goal list shows all of them." if known else none)
    output.say(found if json else listing_text(list(map(RunSummary.read, found)), datetime.now(UTC), output.columns()))
    return 0


def print_status(reference: str | None = None, *, json: bool = False) -> int:
    """Print the state of a run without calling a model; return the run's exit code, 4 if it has not ended."""
    from goalrunner.reports.status import status_lines

    try:
        folder = find(reference)
    except RunNotFound:
        if reference is None or not os.path.exists(reference):  # noqa: PTH110 - never raises
            raise
        from goalrunner.transcripts import check_format

        check_format(Path(reference))
        kind = "file" if is_file(reference) else "folder"
        hint = f'goal status {reference} --objective "..." --judge MODEL, or --goal FILE'
        raise UsageError(f"{reference} is a {kind}: give the objective to judge it by", hint) from None
    values = run_folder.read_summary(folder)
    summary = RunSummary.read(values)
    if json:
        output.say({**values, "path": str(folder.path)})
    else:
        output.say(output.laid_out(status_lines(summary, datetime.now(UTC), str(folder.path))))
    return summary.process_exit_code
