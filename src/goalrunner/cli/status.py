"""`goal status` and `goal list`."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from goalrunner.cli import ci, main, output, runs
from goalrunner.cli.options import Json
from goalrunner.core.errors import ExitCode, RunNotFound, UsageError
from goalrunner.reports.result_file import ResultFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goalrunner.app.kept_verdicts import TranscriptAudit
    from goalrunner.core.goal import Goal

STDIN = "-"

EXIT_CODES = {"complete": 0, "not complete": 1, "unreadable": 1, "not audited": 1, "judge failed": int(ExitCode.FAILED)}
"""By the result of an audit."""

Format = Annotated[
    str | None,
    Option("--format", metavar="NAME", help="Read the transcript in this format; --list-formats lists them."),
]


def status(
    target: Annotated[
        str | None,
        Argument(
            metavar="RUN|TRANSCRIPT",
            help="Id of a run (default: the newest), a file or a folder; - is standard input.",
        ),
    ] = None,
    objective: Annotated[str | None, Option(metavar="TEXT", help="Judge the transcript by this objective.")] = None,
    goal: Annotated[
        Path | None, Option(metavar="FILE", readable=False, help="Judge the transcript by this goal file.")
    ] = None,
    judge: Annotated[str | None, Option(metavar="NAME", help="The model that judges the transcript.")] = None,
    format_: Format = None,
    list_formats: Annotated[bool, Option("--list-formats", help="List the formats of transcripts.")] = False,
    workspace: Annotated[str | None, Option(metavar="DIR", help="Where the validators run, with --base.")] = None,
    base: Annotated[
        str | None,
        Option(metavar="REV", help="Run the validators as well, with the protected files of this git revision."),
    ] = None,
    validator: Annotated[
        list[str] | None, Option(metavar="CMD", help="A validator to run, with --base; may be repeated.")
    ] = None,
    junit: ci.JUnit = None,
    summary: ci.SummaryFile = None,
    gitlab: ci.GitLab = None,
    json: Json = False,
) -> int:
    """Print the state of a run, or judge a saved transcript.

    A run: no model is called; the exit code is the run's, and 4 while it has not ended. --junit, --summary and --gitlab
    write the files that goal run can write; --junit works for a transcript, too. A transcript with --objective or --goal:
    its format is recognised by its content, and the judge is asked. What it shows is what the transcript claims; with
    --base the validators run as well, and have to be green. The exit code is 0 for complete, 1 for not complete, 4 if the
    judge failed.
    """
    if list_formats:
        return print_formats(json=json)
    judging = (objective, goal, judge, format_, workspace, base, validator or None)
    if target != STDIN and all(value is None for value in judging):
        if junit or summary or gitlab:
            files = ci.open_files(junit, summary, gitlab, asked_only=True)
            files.write(ci.read(runs.find(target)), sys.stdout)
        return runs.print_status(target, json=json)
    if base is None and (workspace or validator):
        raise UsageError("validators need the git revision on which the work began", "add --base REV")
    if summary or gitlab:
        raise UsageError("--summary and --gitlab are for runs", "use --junit FILE or --json for a transcript")
    transcript = _transcript(target)
    judged_by = audit_goal(objective, goal, judge, {"workspace.path": workspace, "validators": validator})
    copy = ResultFile(junit, option="--junit") if junit else None
    found = _audited(transcript, judged_by, format_, base, goal)
    if copy is not None:
        from goalrunner.reports.audits import audits_junit

        copy.write(audits_junit([found]))
    _print_audit(found, json=json, not_run=bool(judged_by.validators) and base is None)
    return EXIT_CODES[found.result]


def _audited(
    transcript: str, judged_by: Goal, format_: str | None, base: str | None, goal_file: Path | None
) -> TranscriptAudit:
    import asyncio

    from goalrunner.app.audits import AuditJob, audit_transcript

    main.collect_garbage()

    async def audit() -> TranscriptAudit:
        checks = None
        if base is not None:
            from goalrunner.app.revision_checks import check_revision
            from goalrunner.app.run_options import RunOptions

            checks = await check_revision(judged_by, base, RunOptions(home=runs.home(), goal_file=goal_file))
        return await audit_transcript(AuditJob(transcript, judged_by, format_), checks)

    return asyncio.run(audit())


def _print_audit(found: TranscriptAudit, *, json: bool, not_run: bool) -> None:
    from goalrunner.reports.audits import audit_text, audit_value

    if json:
        output.say_json(audit_value(found))
    else:
        output.say(audit_text(found, columns=output.columns(), not_run=not_run))


def print_formats(*, json: bool) -> int:
    """Print the formats of transcripts."""
    from goalrunner.reports.tables import table
    from goalrunner.transcripts import formats

    found = formats()
    if json:
        output.say_json([{"name": name, "description": description} for name, description in found])
    else:
        output.say("".join(f"{line}\n" for line in table([("FORMAT", "DESCRIPTION"), *found], output.columns(), 20)))
    return 0


def _transcript(target: str | None) -> str:
    if target is None:
        raise UsageError("no transcript is given", "goal status TRANSCRIPT --objective TEXT --judge MODEL")
    if target == STDIN or os.path.exists(target):  # noqa: PTH110 - never raises
        return target
    if os.path.exists(target.rpartition("#")[0]):  # noqa: PTH110 - one conversation of a file
        return target
    try:
        return str(runs.find(target).transcript)
    except RunNotFound:
        raise UsageError(f"{target}: no such file or run", "goal list shows the runs") from None


def audit_goal(
    objective: str | None, goal_file: Path | None, judge: str | None, more: Mapping[str, Any] | None = None
) -> Goal:
    """Return the goal to judge by. It needs a judge, but neither an agent nor a validator. Raise UsageError."""
    from goalrunner.app.judging import judged_by
    from goalrunner.goalfile import load_goal, resolve_goal

    if objective is None and goal_file is None:
        raise UsageError("no objective to judge the transcript by", "add --objective TEXT or --goal FILE")
    options = {"objective": objective, "judge.model": judge, **(more or {})}
    given = {key: value for key, value in options.items() if value is not None}
    if goal_file is not None:
        goal = load_goal(goal_file, given, os.environ, runnable=False)
    else:
        goal = resolve_goal({}, given, os.environ, runnable=False)
    return judged_by(goal)


STATUSES = ("running", "complete", "capped", "blocked", "cancelled", "failed", "lost", "unreadable")


def list_(
    status: Annotated[
        list[str] | None,
        Option(metavar="STATUS", help=f"Only runs with this status: {', '.join(STATUSES)}; may be repeated."),
    ] = None,
    since: Annotated[
        str | None, Option(metavar="TIME", help='Only runs that started since: "7d", "12h", or 2026-11-30.')
    ] = None,
    workspace: Annotated[str | None, Option(metavar="DIR", help="Only runs in this workspace.")] = None,
    limit: Annotated[int | None, Option("--limit", "-n", metavar="N", min=1, help="At most N runs.")] = None,
    json: Json = False,
) -> int:
    """List the runs, newest first."""
    wanted = frozenset(name.strip() for item in status or () for name in item.split(","))
    for name in sorted(wanted - set(STATUSES)):
        from difflib import get_close_matches

        near = get_close_matches(name, STATUSES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"valid: {', '.join(STATUSES)}"
        raise UsageError(f'--status: "{name}" is not a status', hint)
    place = os.path.realpath(os.path.expanduser(workspace)) if workspace else ""  # noqa: PTH111
    moment = _since(since) if since is not None else None
    return runs.list_runs(json=json, chosen=runs.Filter(wanted, moment, place, limit))


def _since(text: str) -> datetime:
    """Return the moment that a duration or a date names. Raise UsageError."""
    from goalrunner.core.field_types import parse_duration

    try:
        seconds = parse_duration(text)
        if seconds is not None:
            return datetime.now(UTC) - timedelta(seconds=seconds)
        return datetime.fromisoformat(text).astimezone()
    except (OverflowError, ValueError):
        raise UsageError(f'--since: "{text}" is not a duration or a date', 'use "7d", "12h" or 2026-11-30') from None
