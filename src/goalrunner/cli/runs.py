"""The run that a command line names; `goal list` and `goal status RUN`, without Typer."""

from __future__ import annotations

import contextlib
import hashlib
import os
from datetime import UTC, datetime
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.cli import output
from goalrunner.core.errors import (
    GoalError,
    RecordError,
    RunNotFound,
    UsageError,
    one_line,
    quoted,
)
from goalrunner.core.run_summary import RUNNING, RunSummary
from goalrunner.records import run_folder, run_search, run_summaries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from goalrunner.core.events import Record
    from goalrunner.core.observation import TranscriptRef
    from goalrunner.records.run_folder import RunFolder


def home() -> Path:
    """Return GOAL_HOME."""
    return run_folder.goal_home(os.environ)


def message_text(transcript: Path, message: TranscriptRef) -> str:
    """Return the text of a message; empty if the transcript is damaged, which `goal verify` reports."""
    from goalrunner.core.messages import text_of
    from goalrunner.records.transcript_file import read_message

    with contextlib.suppress(RecordError):
        return text_of(read_message(transcript, message).get("content"))
    return ""


def find(reference: str | None) -> RunFolder:
    """Return the folder of a run, by id, its beginning or path; None is the newest run of this workspace.

    Raise RunNotFound, and UsageError without a current folder.
    """
    return (
        run_search.newest_run(home(), current_folder())
        if reference is None
        else run_search.find_run(home(), reference)
    )


def to_resume() -> RunFolder:
    """Return the newest run of this workspace.

    Raise RunNotFound if there is none, or if it ended before it began; the error names the newest other run that can go on.
    """
    from goalrunner.reports.next_steps import never_began
    from goalrunner.reports.short_forms import home_path

    here = current_folder()
    summaries = run_summaries.run_summaries(home())
    own = [RunSummary.read(values) for values in run_search.runs_of(summaries, here)]
    if not summaries:
        return find(None)
    if own:
        newest = run_folder.RunFolder(home() / run_folder.RUNS / own[0].run_id)
        # The summary may be older than the log, in which the run began.
        if not never_began(own[0]) or any(
            record.event.type == "run_started" for record in records(newest)
        ):
            return newest
    why = f"nothing to resume in {here}"
    if own:
        why += f": run {own[0].run_id} was ended before it began"
    own_ids = {summary.run_id for summary in own}
    # An older run of this folder is nearer than one elsewhere.
    others = sorted(
        map(RunSummary.read, summaries),
        key=lambda summary: summary.run_id not in own_ids,
    )
    for other in others:
        is_open = other.status not in (
            "complete",
            "cancelled",
            "unreadable",
        ) and not never_began(other)
        if is_open and other.workspace:
            place = (
                "newest before it" if other.run_id in own_ids else "newest elsewhere"
            )
            about = f"{home_path(other.workspace)}, {quoted(one_line(other.objective))}"
            raise RunNotFound(why, f"{place}: goal resume {other.run_id}   ({about})")
    raise RunNotFound(why, "goal run starts a run; goal list --all shows all runs")


def current_folder() -> Path:
    """Return the current folder without links. Raise UsageError if it does not exist any more."""
    try:
        return Path.cwd()
    except OSError as error:
        why = "the current folder does not exist any more, so no run belongs to it"
        raise UsageError(why, "name the run; goal list --all shows all runs") from error


def note_attempt() -> None:
    """Keep the time of a `goal run` in this folder, also of one that then makes no run. Without earlier runs, keep nothing."""
    with contextlib.suppress(
        GoalError, OSError
    ):  # the run itself says what is wrong with its home
        if (home() / run_folder.RUNS).is_dir():
            run_folder.write_json(
                _attempt_file(), datetime.now(UTC).isoformat(timespec="milliseconds")
            )


def last_attempt() -> datetime | None:
    """Return the time of the last `goal run` in this folder; None if it is not known."""
    try:
        return datetime.fromisoformat(loads(_attempt_file().read_bytes()))
    except (GoalError, OSError, TypeError, ValueError):
        return None


def _attempt_file() -> Path:
    name = hashlib.sha256(os.fsencode(current_folder())).hexdigest()[:16]
    return home() / "attempts" / f"{name}.json"


def records(folder: RunFolder) -> Iterator[Record]:
    """Return the records of a run's log."""
    from goalrunner.records.event_log import read_records

    return read_records(folder.events)


def is_file(path: Any) -> bool:
    """Return whether a path is a file. Never raise, also for paths that cannot exist."""
    return os.path.isfile(path)  # noqa: PTH113


def list_runs(
    *,
    json: bool = False,
    everywhere: bool = False,
    chosen: Callable[[RunSummary], bool] = bool,
    limit: int | None = None,
) -> int:
    """Print the runs of this workspace, or those of all workspaces, newest first; return 0."""
    from goalrunner.reports.run_table import listing_text

    every = run_summaries.run_summaries(home())
    here = every if everywhere else run_search.runs_of(every, current_folder())
    listed = [values for values in here if chosen(RunSummary.read(values))][:limit]
    if json:
        output.say(listed)
        return 0
    if not listed:
        if here:
            output.complain("No run matches.")
        elif every:
            output.complain(
                f"No run worked in {current_folder()}. goal list --all shows the runs of all workspaces."
            )
        else:
            output.complain(
                f"No runs yet in {home()}. To start one: goal run goal.toml"
            )
    summaries = [RunSummary.read(values) for values in listed]
    if sizes := [size for size in map(_copy_size, summaries) if size is not None]:
        output.complain(_COPIES.format(number=len(sizes), megabytes=sum(sizes) / 1e6))
    output.say(
        listing_text(
            summaries, datetime.now(UTC), output.columns(), with_workspaces=everywhere
        )
    )
    return 0


_COPIES = (
    "Copies of {number} of these runs use {megabytes:.1f} MB; "
    "goal discard RUN removes the copy of one."
)


def _copy_size(summary: RunSummary) -> int | None:
    """Return the bytes on disk of the copy of a run; None if it has none."""
    copy = home() / run_folder.RUNS / summary.run_id / "copy"
    if not (copy / "copy.json").is_file():
        return None
    blocks = 0
    for folder, _, names in os.walk(copy):
        for name in names:
            with contextlib.suppress(OSError):
                blocks += os.lstat(os.path.join(folder, name)).st_blocks  # noqa: PTH118
    return blocks * 512


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
        hint = (
            f'goal status {reference} --objective "..." --judge MODEL, or --goal FILE'
        )
        raise UsageError(
            f"{reference} is a {kind}: give the objective to judge it by", hint
        ) from None
    values = run_summaries.read_summary(folder)
    summary = RunSummary.read(values)
    if json:
        output.say({**values, "path": str(folder.path)})
    else:
        lines = status_lines(
            summary, datetime.now(UTC), str(folder.path), _activity(folder, summary)
        )
        output.say(output.terminal_text(lines))
    return summary.process_exit_code


def _activity(folder: RunFolder, summary: RunSummary) -> str:
    """Return what an active run does at this moment; empty if its log cannot be read."""
    if summary.status != RUNNING:
        return ""
    from goalrunner.reports.current import activity_text

    with contextlib.suppress(GoalError):
        return activity_text(records(folder), folder.scratch)
    return ""
