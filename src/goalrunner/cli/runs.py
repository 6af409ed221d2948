"""The run that a command line names; list and status of runs, without Typer.

`goal list` and `goal status RUN` are called often, so this module imports little.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from datetime import UTC, datetime
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner import fleet
from goalrunner.batches.names import batches_of_runs, named_batch
from goalrunner.cli import output
from goalrunner.copies import INSIDE
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
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from goalrunner.batches.rows import BatchMoment
    from goalrunner.core.events import Record
    from goalrunner.core.observation import TranscriptRef
    from goalrunner.records.run_folder import RunFolder

_RUN_ID = re.compile(r"(?=.{1,63}\Z)[a-z0-9]+(-[a-z0-9]+)*")
"""As the names of resources in Kubernetes, which may contain it."""


def home() -> Path:
    """Return GOAL_HOME."""
    return run_folder.goal_home(os.environ)


def message_text(transcript: Path, message: TranscriptRef) -> str:
    """Return the text of a message; empty if the transcript is damaged."""
    from goalrunner.core.messages import text_of
    from goalrunner.records.transcript_file import read_message

    # `goal verify` reports the damage.
    with contextlib.suppress(RecordError):
        return text_of(read_message(transcript, message).get("content"))
    return ""


def find(reference: str | None) -> RunFolder:
    """Return the folder of a run, by id, its beginning or path.

    None is the newest run of this workspace. Raise RunNotFound, and UsageError without
    a current folder.
    """
    if reference is None:
        return run_search.newest_run(home(), current_folder())
    if fleet.VARIABLE not in os.environ:
        return run_search.find_run(home(), reference)
    from goalrunner.fleet.remote_commands import find_here_or_fetch

    return find_here_or_fetch(home(), reference, os.environ)


def with_id(run_id: str) -> RunFolder | None:
    """Return the run with exactly this id; None if it has not begun.

    What a killed process left of a run that never began is removed. Raise UsageError
    if this can be no id, or if another process has this run in hand.
    """
    if _RUN_ID.fullmatch(run_id) is None:
        raise UsageError(
            f"{quoted(run_id)} can be no id of a run",
            "an id has up to 63 small letters, digits and single hyphens: --id fix-7",
        )
    folder = run_folder.RunFolder(home() / run_folder.RUNS / run_id)
    if not folder.path.exists():
        return None
    from goalrunner.records.event_log import has_begun
    from goalrunner.records.writer_lock import LogInUse, has_writer

    if has_begun(folder.events):
        return folder
    if has_writer(folder.events):
        raise LogInUse(folder.path, "another process")
    # In the process inside of its copy, the run has a folder before it begins.
    if INSIDE not in os.environ:
        folder.remove()
    return None


def to_resume() -> RunFolder:
    """Return the newest run of this workspace.

    Raise RunNotFound if there is none, or if its process was killed before the run
    began; the error names the newest other run that can go on.
    """
    folder = current_folder()
    summaries = run_summaries.run_summaries(home())
    if not summaries:
        return find(None)
    runs_here = list(map(RunSummary.read, run_search.runs_of(summaries, folder)))
    message = f"nothing to resume in {folder}"
    if runs_here:
        newest_id = runs_here[0].run_id
        newest = run_folder.RunFolder(home() / run_folder.RUNS / newest_id)
        if _has_begun(runs_here[0], newest):
            return newest
        message += f": run {newest_id} was ended before it began"
    ids_here = {summary.run_id for summary in runs_here}
    hint = _other_run(map(RunSummary.read, summaries), ids_here)
    raise RunNotFound(message, hint)


def _has_begun(summary: RunSummary, folder: RunFolder) -> bool:
    from goalrunner.records.event_log import has_begun
    from goalrunner.reports.next_steps import never_began

    # The summary may be older than the log, in which the run began.
    return not never_began(summary) or has_begun(folder.events)


def _other_run(summaries: Iterable[RunSummary], ids_here: set[str]) -> str:
    """Return the command that resumes the newest other run, or the one that lists runs.

    A run of this folder is nearer than one elsewhere.
    """
    from goalrunner.reports.next_steps import never_began
    from goalrunner.reports.short_forms import home_path

    nearest_first = sorted(
        summaries, key=lambda summary: summary.run_id not in ids_here
    )
    for other in nearest_first:
        is_final = other.status in ("complete", "cancelled", "unreadable")
        if is_final or never_began(other) or not other.workspace:
            continue
        place = "newest elsewhere"
        if other.run_id in ids_here:
            place = "newest before it"
        objective = quoted(one_line(other.objective))
        workspace = home_path(other.workspace)
        return f"{place}: goal resume {other.run_id}   ({workspace}, {objective})"
    return "goal run starts a run; goal list --all shows all runs"


def current_folder() -> Path:
    """Return the current folder. Raise UsageError if it does not exist any more."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            "the current folder does not exist any more, so no run belongs to it",
            "name the run; goal list --all shows all runs",
        ) from error


def note_goal_run() -> None:
    """Record the time of a `goal run` in this folder, also of one that then fails.

    Without earlier runs, record nothing.
    """
    # The run itself reports a home that cannot be used.
    with contextlib.suppress(GoalError, OSError):
        if (home() / run_folder.RUNS).is_dir():
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            run_folder.write_json(_attempt_file(), now)


def last_goal_run() -> datetime | None:
    """Return the time of the last `goal run` in this folder; None if it is unknown."""
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
    """Return whether a path is a file. Never raise, also for impossible paths."""
    return os.path.isfile(path)  # noqa: PTH113


def list_runs(
    *,
    json: bool = False,
    everywhere: bool = False,
    chosen: Callable[[RunSummary], bool] = bool,
    limit: int | None = None,
) -> int:
    """Print the runs of this workspace, or those of all, newest first; return 0."""
    from goalrunner.reports.run_table import listing_text

    in_home = run_summaries.run_summaries(home())
    in_scope = in_home
    if not everywhere:
        in_scope = run_search.runs_of(in_home, current_folder())
    values = [value for value in in_scope if chosen(RunSummary.read(value))][:limit]
    batches, sizes = batches_of_runs(home()), _copy_sizes(values)
    if json:
        for value in values:
            run_id = value["run_id"]
            if run_id in batches:
                value["batch"] = batches[run_id]
            if run_id in sizes:
                value["copy_bytes"] = sizes[run_id]
        output.say([*values, *_fleet_runs(chosen, limit, json=True)])
        return 0
    if not values:
        output.complain(_why_none(bool(in_home), bool(in_scope)))
    summaries = list(map(RunSummary.read, values))
    if sizes:
        output.complain(_COPIES.format(len(sizes), sum(sizes.values()) / 1e6))
    now = datetime.now(UTC)
    text = listing_text(
        summaries,
        now,
        output.columns(),
        with_workspaces=everywhere,
        batches=batches,
        copies={run: f"{size / 1e6:.1f} MB" for run, size in sizes.items()},
    )
    output.say(text)
    for section in _fleet_runs(chosen, limit, json=False):
        output.say(section)
    return 0


def _fleet_runs(
    chosen: Callable[[RunSummary], bool], limit: int | None, *, json: bool
) -> list[Any]:
    """Return the runs of the fleet, or their section as the only text.

    They are left out without a fleet, and if its database does not answer.
    """
    if not os.environ.get(fleet.VARIABLE):
        return []
    try:
        from goalrunner.fleet import remote_listing

        fleet_runs = remote_listing.listed_fleet_runs(chosen, limit)
    except GoalError as error:
        output.complain(f"Warning: the runs of the fleet are missing: {error.message}")
        return []
    if json:
        return remote_listing.fleet_values(fleet_runs)
    return [remote_listing.fleet_section(fleet_runs, output.columns())]


def _why_none(has_runs: bool, has_runs_in_scope: bool) -> str:
    """Return why a list of runs is empty, and what to type."""
    if has_runs_in_scope:
        return "No run matches."
    if has_runs:
        return (
            f"No run worked in {current_folder()}."
            " goal list --all shows the runs of all workspaces."
        )
    return f"No runs yet in {home()}. To start one: goal run goal.toml"


_COPIES = (
    "Copies of {} of these runs use {:.1f} MB; goal discard RUN removes the copy of "
    "one, and goal prune --copies those of old runs."
)


def _copy_sizes(summaries: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return by run id how many bytes on disk the copies of runs have."""
    sizes: dict[str, int] = {}
    for summary in summaries:
        run_id = str(summary["run_id"])
        copy = home() / run_folder.RUNS / run_id / "copy"
        # Upper layers can lie on another file system.
        with contextlib.suppress(OSError, ValueError, KeyError):
            layers = Path(loads((copy / "copy.json").read_bytes())["layers"])
            sizes[run_id] = _size_on_disk(copy)
            if not layers.is_relative_to(copy):
                sizes[run_id] += _size_on_disk(layers)
    return sizes


def _size_on_disk(top: Path) -> int:
    """Return the bytes on disk of all files in a folder."""
    blocks = 0
    for folder, _, names in os.walk(top):
        for name in names:
            with contextlib.suppress(OSError):
                blocks += os.lstat(os.path.join(folder, name)).st_blocks  # noqa: PTH118
    # POSIX counts in these units, whatever the block size of the file system is.
    return blocks * 512


def print_status(reference: str | None = None, *, json: bool = False) -> int:
    """Print the state of a run, or of a batch, without calling a model.

    Return the run's exit code, 4 if it has not ended.
    """
    batch = named_batch(home(), reference)
    if batch is not None:
        from goalrunner.batches.listing import print_batch

        return print_batch(home(), batch, json=json)
    moment = batch_in_fleet(reference)
    if moment is not None:
        from goalrunner.batches.listing import print_moment

        return print_moment(moment, json=json)
    from goalrunner.reports.status import status_lines

    try:
        folder = find(reference)
    except RunNotFound:
        # os.path.exists never raises.
        if reference is None or not os.path.exists(reference):  # noqa: PTH110
            raise
        raise _transcript_error(reference) from None
    values = run_summaries.read_summary(folder)
    summary = RunSummary.read(values)
    if json:
        output.say({**values, "path": str(folder.path)})
        return summary.process_exit_code
    activity = _activity(folder, summary)
    lines = status_lines(summary, datetime.now(UTC), str(folder.path), activity)
    output.say(output.terminal_text(lines))
    return summary.process_exit_code


def batch_in_fleet(reference: str | None) -> BatchMoment | None:
    """Return how a batch of the fleet is now.

    None without a fleet, for a run of this machine, and if the fleet has no batch of
    that name.
    """
    if reference is None or not os.environ.get(fleet.VARIABLE):
        return None
    from goalrunner.fleet.remote_commands import local_run

    if local_run(home(), reference) is not None:
        return None
    from goalrunner.fleet import remote_listing

    return remote_listing.batch_in_fleet(reference)


def _transcript_error(path: str) -> UsageError:
    """Return the error for a transcript without an objective.

    Raise UsageError if the file is no transcript.
    """
    from goalrunner.transcripts import check_format

    check_format(Path(path))
    kind = "file" if is_file(path) else "folder"
    return UsageError(
        f"{path} is a {kind}: give the objective to judge it by",
        f'goal status {path} --objective "..." --judge MODEL, or --goal FILE',
    )


def _activity(folder: RunFolder, summary: RunSummary) -> str:
    """Return what an active run is doing; empty if its log cannot be read."""
    if summary.status != RUNNING:
        return ""
    from goalrunner.reports.current import activity_text

    with contextlib.suppress(GoalError):
        return activity_text(records(folder), folder.scratch)
    return ""
