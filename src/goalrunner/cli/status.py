"""`goal status` and `goal list`."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from goalrunner.batches.names import named_batch
from goalrunner.cli import options, output, runs
from goalrunner.cli.options import COUNT, File, Text, Texts, argument, flag, option
from goalrunner.core.errors import UsageError
from goalrunner.core.run_summary import RunSummary
from goalrunner.exports.result_files import open_files

STATUSES = (
    "running",
    "complete",
    "capped",
    "blocked",
    "cancelled",
    "failed",
    "lost",
    "unreadable",
)

_Target = Annotated[
    Text,
    argument(
        "RUN|BATCH|TRANSCRIPT",
        "A run (default: the newest of this workspace), a batch, a file or a folder; -"
        " is stdin.",
        options.runs_and_batches,
    ),
]


def status(
    target: _Target = None,
    objective: Annotated[
        Text, option("TEXT", "Judge the transcript by this objective.")
    ] = None,
    goal: Annotated[
        File, option("FILE", "Judge the transcript by this goal file.")
    ] = None,
    judge: options.Judge = None,
    format_: options.Format = None,
    list_formats: Annotated[
        bool, flag("--list-formats", "List the formats of transcripts.")
    ] = False,
    workspace: Annotated[
        Text, option("DIR", "Where the validators run, with --base.")
    ] = None,
    base: Annotated[
        Text,
        option(
            "REV", "Run the validators, too, with the protected files of this revision."
        ),
    ] = None,
    validator: Annotated[
        Texts, option("CMD", "A validator to run, with --base; may be repeated.")
    ] = None,
    junit: options.JUnit = None,
    summary: options.SummaryFile = None,
    gitlab: options.GitLab = None,
    json: options.Json = False,
) -> int:
    """Print the state of a run, or judge a saved transcript.

    For a run, no model is called; the exit code is the run's, and 4 while it has not
    ended. Of a batch, the goals are printed. --junit, --summary and --gitlab write the
    files that goal run can write; --junit also works for a batch and a transcript. For
    a transcript, give --objective or --goal:
    its format is recognised by its content, and the judge is asked. The evidence is
    only what the transcript claims; with --base, the validators run as well, and must
    pass. The exit code is 0 for complete, 1 for not complete, 4 if the judge failed.
    """
    if list_formats:
        return _print_formats(json=json)
    judging = (objective, goal, judge, format_, workspace, base, validator or None)
    if target != options.STDIN and all(value is None for value in judging):
        batch = named_batch(runs.home(), target)
        if junit and batch is not None:
            from goalrunner.batches.result_files import write_batch_junit

            write_batch_junit(runs.home(), batch, junit)
        elif junit or summary or gitlab:
            _write_files(target, junit, summary, gitlab)
        return runs.print_status(target, json=json)
    if base is None and (workspace or validator):
        raise UsageError(
            "validators need the git revision on which the work began", "add --base REV"
        )
    if summary or gitlab:
        raise UsageError(
            "--summary and --gitlab are for runs",
            "use --junit FILE or --json for a transcript",
        )
    from goalrunner.audits.commands import audit_goal, judge_transcript

    goal_to_judge = audit_goal(objective, goal, judge, workspace, validator)
    return judge_transcript(
        target,
        goal_to_judge,
        format_=format_,
        base=base,
        goal_file=goal,
        junit=junit,
        json=json,
    )


def _write_files(
    reference: str | None,
    junit: Path | None,
    summary: Path | None,
    gitlab: Path | None,
) -> None:
    """Write the files about a run, or the report of a batch of the fleet."""
    moment = runs.batch_in_fleet(reference) if junit else None
    if moment is not None:
        from goalrunner.batches.result_files import BatchFiles

        BatchFiles.open(junit, None).write_moment(moment)
        return
    files = open_files(junit, summary, gitlab, asked_only=True)
    files.write(runs.find(reference), sys.stdout)


def _print_formats(*, json: bool) -> int:
    from goalrunner.reports.terminal_text import lines_text, table
    from goalrunner.transcripts import formats

    descriptions = formats()
    if json:
        output.say(
            [
                {"name": name, "description": description}
                for name, description in descriptions
            ]
        )
        return 0
    rows = table([("FORMAT", "DESCRIPTION"), *descriptions], output.columns(), 20)
    output.say(lines_text(rows))
    return 0


def _moment(text: str) -> datetime:
    """Return the moment that a duration or a date names.

    Raise ValueError or OverflowError.
    """
    from goalrunner.core.field_types import parse_duration

    seconds = parse_duration(text)
    if seconds:
        return datetime.now(UTC) - timedelta(seconds=seconds)
    return datetime.fromisoformat(text).astimezone()


def _start(summary: RunSummary) -> datetime:
    """Return when a run started; long ago for a summary that does not contain it."""
    try:
        return datetime.fromisoformat(summary.started_at)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)


_MOMENT = options.checked(_moment, '"7d", "12h" or a date, such as 2026-11-30')


def list_(
    batch_name: Annotated[
        Text, argument("BATCH", "With --batch: the goals of this batch.")
    ] = None,
    status: Annotated[
        Texts,
        option(
            "STATUS",
            f"Only these: {', '.join(STATUSES)}; may be repeated.",
            parser=options.one_of(STATUSES),
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        option(
            "TIME",
            'Only runs that started since: "7d", "12h", or 2026-11-30.',
            parser=_MOMENT,
        ),
    ] = None,
    workspace: Annotated[Text, option("DIR", "Only runs in this workspace.")] = None,
    everywhere: Annotated[bool, flag("--all", "The runs of all workspaces.")] = False,
    limit: Annotated[
        int | None, option("N", "At most N runs.", "--limit", "-n", parser=COUNT)
    ] = None,
    batch: Annotated[
        bool, flag("--batch", "The batches, or with a name the goals of one.")
    ] = False,
    json: options.Json = False,
) -> int:
    """List the runs of this workspace, newest first.

    These are the runs whose workspace or goal file is in the current folder, else those
    of the nearest folder above it in which a run worked.
    """
    if batch:
        return _list_batches(batch_name, json=json)
    if batch_name is not None:
        raise UsageError(
            "goal list takes no argument without --batch",
            f"goal list --batch {batch_name} lists the goals of a batch",
        )
    if workspace == "":
        raise UsageError("--workspace is empty", "write a folder, or remove it")
    if workspace and everywhere:
        raise UsageError("--workspace and --all cannot be combined", "use one of them")
    place = ""
    if workspace:
        place = os.path.realpath(os.path.expanduser(workspace))  # noqa: PTH111

    def chosen(summary: RunSummary) -> bool:
        if place and os.path.realpath(summary.workspace or "/") != place:
            return False
        if status and summary.status not in status:
            return False
        return since is None or _start(summary) >= since

    return runs.list_runs(
        json=json, everywhere=everywhere or bool(place), chosen=chosen, limit=limit
    )


def _list_batches(name: str | None, *, json: bool) -> int:
    """Print all batches, or the goals of one."""
    from goalrunner.batches.listing import list_batches, print_batch, print_moment

    if name is None:
        return list_batches(runs.home(), json=json)
    is_here = named_batch(runs.home(), name) is not None
    moment = None if is_here else runs.batch_in_fleet(name)
    if moment is not None:
        print_moment(moment, json=json)
    else:
        # It raises the error for an unknown name.
        print_batch(runs.home(), name, json=json)
    return 0
