"""`goal audit`: many saved transcripts at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from goalrunner.cli import ci, goals, main, output, runs
from goalrunner.cli.options import Cost, Tokens
from goalrunner.cli.status import EXIT_CODES, Format, audit_goal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goalrunner.app.kept_verdicts import TranscriptAudit


def audit(
    transcripts: Annotated[
        list[str], Argument(metavar="TRANSCRIPT", help="Files, folders with transcripts, or patterns.")
    ],
    objective: Annotated[str | None, Option(metavar="TEXT", help="Judge each by this objective.")] = None,
    goal: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            readable=False,
            help="Judge each by this goal file; default: NAME.toml or goal.toml beside each transcript.",
        ),
    ] = None,
    judge: Annotated[str | None, Option(metavar="NAME", help="The model that judges.")] = None,
    format_: Format = None,
    jobs: Annotated[int, Option("--jobs", "-j", metavar="N", min=1, help="Audits at the same time.")] = 4,
    output_file: Annotated[
        Path | None,
        Option(
            "--output",
            metavar="FILE",
            readable=False,
            help="Keep the verdicts in this file of JSON lines; default: audits/verdicts.jsonl in GOAL_HOME.",
        ),
    ] = None,
    tokens: Tokens = None,
    cost: Cost = None,
    junit: ci.JUnit = None,
    html: Annotated[
        Path | None, Option("--html", metavar="FILE", readable=False, help="Write the result as HTML there.")
    ] = None,
    json: Annotated[bool, Option("--json", help="Print a JSON object a line for each transcript.")] = False,
) -> int:
    """Judge many saved transcripts: of a folder, or of a pattern.

    A transcript that was judged before by the same goal and judge is not judged again, so an interrupted call can be
    repeated. A budget is for one call, and looked at between audits. The exit code is 0 if all are complete, 1 if one is
    not or cannot be read, 4 if the judge failed.
    """
    from goalrunner.app.audits import AuditJob, Auditor, find_transcripts, goal_beside
    from goalrunner.app.kept_verdicts import KeptVerdicts
    from goalrunner.reports.result_file import ResultFile

    paths = find_transcripts(transcripts)
    if objective is not None or goal is not None:
        shared = audit_goal(objective, goal, judge)
        todo = [AuditJob(path, shared, format_) for path in paths]
    else:
        todo = [AuditJob(path, audit_goal(None, goal_beside(path), judge), format_) for path in paths]
    copies = {
        option: ResultFile(path, option=option) for option, path in (("--junit", junit), ("--html", html)) if path
    }
    kept = KeptVerdicts(output_file or runs.home() / "audits" / "verdicts.jsonl")
    budget = goals.budget_of(tokens, cost, None)
    main.collect_garbage()
    found = asyncio.run(Auditor(kept, budget, on_end=_progress(len(todo))).run(todo, jobs))
    _print(found, json=json)
    from goalrunner.reports.audits import audits_junit, audits_page

    texts = {"--junit": audits_junit, "--html": audits_page}
    for option, copy in copies.items():
        copy.write(texts[option](found))
    return max(EXIT_CODES[one.result] for one in found)


def _print(found: Sequence[TranscriptAudit], *, json: bool) -> None:
    from goalrunner.reports.audits import audit_value, audits_table

    if not json:
        output.say(audits_table(found, output.columns()))
        return
    from json import dumps

    output.say("".join(f"{dumps(audit_value(one), ensure_ascii=False)}\n" for one in found))


def _progress(total: int) -> Callable[[TranscriptAudit], None]:
    """Return a function that prints a line on stderr for each audit that has ended."""
    from goalrunner.reports.layout import one_line

    ended = 0

    def tell(audit: TranscriptAudit) -> None:
        nonlocal ended
        ended += 1
        output.complain(f"[{ended}/{total}] {audit.result}: {one_line(audit.transcript)}")

    return tell
