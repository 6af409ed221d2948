"""The run that a command line names; `goal list` and `goal status RUN`, without Typer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.cli import output
from goalrunner.core.errors import RunNotFound, UsageError
from goalrunner.records import run_folder
from goalrunner.records.run_folder import goal_home
from goalrunner.reports.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goalrunner.core.events import Record
    from goalrunner.records.event_log import TornTail
    from goalrunner.records.run_folder import RunFolder


def home() -> Path:
    """Return GOAL_HOME."""
    return goal_home(os.environ)


def find(reference: str | None) -> RunFolder:
    """Return the folder of a run, by id, its beginning or path; None is the newest run. Raise RunNotFound."""
    return run_folder.find_run(home(), reference)


def find_waiting(
    reference: str | None, *, question: bool, approval: str | None = None, verb: str = "approve"
) -> RunFolder:
    """Return the folder of a run; None is the only one that waits, for an answer to a question or else for a decision.

    `approval` is the id of the approval that it waits for; `verb` is the command that an error names.
    Raise UsageError if no run waits, or several.
    """
    from goalrunner.reports.tables import pending

    if reference is not None:
        return find(reference)
    what, command = ("an answer", 'answer RUN "..."') if question else ("a decision", f"{verb} RUN")
    waiting = []
    for values in run_folder.list_runs(home()):
        summary = Summary(values)
        ids = [identifier for identifier, _, _ in pending(summary)]
        if summary.texts("open_questions") if question else approval in ids if approval else ids:
            waiting.append(summary)
    ended = [str(one.text("run_id")) for one in waiting if one.status not in _DECIDED]
    if len(ended) == 1:
        return find(ended[0])
    if ended:
        hint = "\n".join(f"goal {command.replace('RUN', run)}" for run in ended[:_SHOWN])
        raise UsageError(f"{len(ended)} runs wait for {what}; name one of them", hint)
    running = next((one.text("run_id") for one in waiting if one.status == "running"), "")
    if running:
        raise UsageError(f"run {running} is active; answer at the terminal in which it was started")
    raise UsageError(f"no run waits for {what}", "goal list shows the runs")


_DECIDED = ("complete", "cancelled", "running")
"""Statuses of runs that take no decision from another terminal."""
_SHOWN = 5


def records(folder: RunFolder) -> Iterator[Record]:
    """Return the records of a run's log."""
    from goalrunner.records.event_log import read_records

    return read_records(folder.events)


def warn_torn(torn: TornTail) -> None:
    """Print that the incomplete last lines of a log are removed."""
    output.complain(f"Warning: {torn}; they are removed")


def is_file(path: Any) -> bool:
    """Return whether a path is a file. Never raise, also for paths that cannot exist."""
    return os.path.isfile(path)  # noqa: PTH113


@dataclass(frozen=True)
class Filter:
    """Which runs are listed; an empty filter lists all of them."""

    statuses: frozenset[str] = frozenset()
    since: datetime | None = None
    workspace: str = ""
    limit: int | None = None

    def of(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the summaries that match, in their order."""
        return [summary for summary in found if self._matches(Summary(summary))][: self.limit]

    def _matches(self, summary: Summary) -> bool:
        return (
            (not self.statuses or summary.status in self.statuses)
            and (self.since is None or _moment(summary.text("started_at")) >= self.since)
            and (not self.workspace or os.path.realpath(summary.text("workspace") or "/") == self.workspace)
        )


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def list_runs(*, json: bool = False, chosen: Filter | None = None) -> int:
    """Print the runs, newest first; return 0."""
    from goalrunner.reports.tables import listing_text

    found = known = [Summary(values).corrected for values in run_folder.list_runs(home())]
    if chosen is not None:
        found = chosen.of(known)
    if json:
        output.say_json(found)
        return 0
    if known and not found:
        output.complain("No run matches. goal list shows all of them.")
    elif not found:
        output.complain(f"No runs yet in {home()}. To start one: goal run goal.toml")
    output.say(listing_text(found, now=datetime.now(UTC), columns=output.columns()))
    return 0


def print_status(reference: str | None, *, json: bool = False) -> int:
    """Print the state of a run without calling a model; return the run's exit code, 4 if it has not ended."""
    from goalrunner.reports.status import status_text

    try:
        folder = find(reference)
    except RunNotFound:
        if reference is not None and is_file(reference):
            from goalrunner.transcripts import check_format

            check_format(Path(reference))
            hint = f'goal status {reference} --objective "..." --judge MODEL, or --goal FILE'
            raise UsageError(f"{reference} is a file: give the objective to judge it by", hint) from None
        if reference is not None and ("/" in reference or "." in reference):  # no id has these
            raise UsageError(f"{reference}: no such run or file", "goal list shows the runs") from None
        raise
    summary = Summary(run_folder.read_summary(folder))
    if json:
        output.say_json({**summary.corrected, "path": str(folder.path)})
    else:
        output.say(status_text(summary, now=datetime.now(UTC), folder=str(folder.path), columns=output.columns()))
    return summary.exit_code
