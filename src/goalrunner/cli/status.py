"""`goal status` and `goal list`."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from goalrunner.cli import goals, main, options, output, runs
from goalrunner.cli.options import COUNT, File, Text, Texts, argument, flag, option
from goalrunner.core.errors import ExitCode, RunNotFound, UsageError
from goalrunner.core.run_summary import RunSummary
from goalrunner.exports.result_files import open_files

if TYPE_CHECKING:
    from goalrunner.core.goal import Goal

STDIN = "-"

EXIT_CODES = {"complete": 0, "not complete": 1, "unreadable": 1, "not audited": 1, "judge failed": int(ExitCode.FAILED)}
"""By the result of an audit."""
STATUSES = ("running", "complete", "capped", "blocked", "cancelled", "failed", "lost", "unreadable")

_Target = Annotated[
    Text, argument("RUN|TRANSCRIPT", "A run (default: the newest of this workspace), a file or a folder; - is stdin.")
]


def status(
    target: _Target = None,
    objective: Annotated[Text, option("TEXT", "Judge the transcript by this objective.")] = None,
    goal: Annotated[File, option("FILE", "Judge the transcript by this goal file.")] = None,
    judge: options.Judge = None,
    format_: options.Format = None,
    list_formats: Annotated[bool, flag("--list-formats", "List the formats of transcripts.")] = False,
    workspace: Annotated[Text, option("DIR", "Where the validators run, with --base.")] = None,
    base: Annotated[Text, option("REV", "Run the validators, too, with the protected files of this revision.")] = None,
    validator: Annotated[Texts, option("CMD", "A validator to run, with --base; may be repeated.")] = None,
    junit: options.JUnit = None,
    summary: options.SummaryFile = None,
    gitlab: options.GitLab = None,
    json: options.Json = False,
) -> int:
    """Print the state of a run, or judge a saved transcript.

    For a run, no model is called; the exit code is the run's, and 4 while it has not ended. --junit, --summary and --gitlab
    write the files that goal run can write; --junit also works for a transcript. For a transcript, give --objective or
    --goal: its format is recognised by its content, and the judge is asked. The evidence is only what the transcript
    claims; with --base, the validators run as well, and must pass. The exit code is 0 for complete, 1 for not complete, 4 if the
    judge failed.
    """
    if list_formats:
        return _print_formats(json=json)
    judging = (objective, goal, judge, format_, workspace, base, validator or None)
    if target != STDIN and all(value is None for value in judging):
        if junit or summary or gitlab:
            open_files(junit, summary, gitlab, asked_only=True).write(runs.find(target), sys.stdout)
        return runs.print_status(target, json=json)
    if base is None and (workspace or validator):
        raise UsageError("validators need the git revision on which the work began", "add --base REV")
    if summary or gitlab:
        raise UsageError("--summary and --gitlab are for runs", "use --junit FILE or --json for a transcript")
    transcript = _transcript(target)
    judged_by = audit_goal(objective, goal, judge, workspace, validator)
    from goalrunner.audits.pages import audit_facts, audit_value, audits_junit
    from goalrunner.audits.transcript_audits import AuditJob, audit_transcript

    copy, checks = output.ResultFile(junit, option="--junit") if junit else None, None
    if base is not None:
        from goalrunner.app.run_options import RunOptions
        from goalrunner.audits.revision_checks import check_revision

        checks = main.wait_for(check_revision(judged_by, base, RunOptions(home=runs.home(), goal_file=goal)))
    found = main.wait_for(audit_transcript(AuditJob(transcript, judged_by, format_), checks))
    if copy is not None:
        copy.write(audits_junit([found]))
    not_run = bool(judged_by.validators) and base is None
    output.say(audit_value(found) if json else output.laid_out(audit_facts(found, not_run=not_run)))
    return EXIT_CODES[found.result]


def _print_formats(*, json: bool) -> int:
    from goalrunner.reports.layout import lines_text, table
    from goalrunner.transcripts import formats

    found = formats()
    rows = table([("FORMAT", "DESCRIPTION"), *found], output.columns(), 20)
    value = [{"name": name, "description": description} for name, description in found]
    output.say(value if json else lines_text(rows))
    return 0


def _transcript(target: str | None) -> str:
    if target is None:
        raise UsageError("no transcript is given", "goal status TRANSCRIPT --objective TEXT --judge MODEL")
    # FILE#NAME is one conversation of a file.
    if target == STDIN or os.path.exists(target) or os.path.exists(target.rpartition("#")[0]):  # noqa: PTH110 - never raises
        return target
    try:
        return str(runs.find(target).transcript)
    except RunNotFound:
        raise UsageError(f"{target}: no such file or run", "goal list shows the runs") from None


def audit_goal(
    objective: str | None,
    goal_file: Path | None,
    judge: str | None,
    workspace: str | None = None,
    validators: list[str] | None = None,
) -> Goal:
    """Return the goal to judge by. It needs a judge, but neither an agent nor a validator. Raise UsageError."""
    from goalrunner.app.goal_models import judged_by

    if objective is None and goal_file is None:
        raise UsageError("no objective to judge the transcript by", "add --objective TEXT or --goal FILE")
    given = {
        "objective": objective,
        "judge.model": judge,
        "workspace.path": workspace,
        "validators": validators or None,
    }
    return judged_by(goals.resolved(goal_file, given))


def _moment(text: str) -> datetime:
    """Return the moment that a duration or a date names. Raise ValueError or OverflowError."""
    from goalrunner.core.field_types import parse_duration

    seconds = parse_duration(text)
    return datetime.now(UTC) - timedelta(seconds=seconds) if seconds else datetime.fromisoformat(text).astimezone()


_MOMENT = options.checked(_moment, '"7d", "12h" or a date, such as 2026-11-30')


def list_(
    status: Annotated[
        Texts, option("STATUS", f"Only these: {', '.join(STATUSES)}; may be repeated.", parser=options.one_of(STATUSES))
    ] = None,
    since: Annotated[
        datetime | None, option("TIME", 'Only runs that started since: "7d", "12h", or 2026-11-30.', parser=_MOMENT)
    ] = None,
    workspace: Annotated[Text, option("DIR", "Only runs in this workspace.")] = None,
    everywhere: Annotated[bool, flag("--all", "The runs of all workspaces.")] = False,
    limit: Annotated[int | None, option("N", "At most N runs.", "--limit", "-n", parser=COUNT)] = None,
    json: options.Json = False,
) -> int:
    """List the runs of this workspace, newest first.

    These are the runs whose workspace or goal file is in the current folder, else those of the nearest folder above it in
    which a run worked.
    """
    if workspace == "":
        raise UsageError("--workspace is empty", "write a folder, or remove it")
    if workspace and everywhere:
        raise UsageError("--workspace and --all cannot be combined", "use one of them")
    place = os.path.realpath(os.path.expanduser(workspace)) if workspace else ""  # noqa: PTH111

    def chosen(summary: RunSummary) -> bool:
        try:
            began = datetime.fromisoformat(summary.started_at)
        except ValueError:
            began = datetime.min.replace(tzinfo=UTC)
        is_there = not place or os.path.realpath(summary.workspace or "/") == place
        return is_there and (not status or summary.status in status) and (since is None or began >= since)

    return runs.list_runs(json=json, everywhere=everywhere or bool(place), chosen=chosen, limit=limit)
