"""`goal audit` and `goal judge`: how reliable judges are."""

from __future__ import annotations

import hashlib
import os
from json import dumps
from pathlib import Path
from typing import Annotated, cast, get_args

from goalrunner.app.goal_models import judged_by
from goalrunner.audits import canaries
from goalrunner.audits.canaries import EXAMPLE, MUTATIONS, CanaryReport
from goalrunner.audits.kept_verdicts import KeptVerdicts, Spending, TranscriptAudit
from goalrunner.audits.transcript_audits import (
    AuditJob,
    Auditor,
    Policy,
    audit_transcript,
    check_judges,
)
from goalrunner.audits.transcript_files import (
    file_of_part,
    find_transcripts,
    goal_beside,
)
from goalrunner.cli import goals, main, options, output, runs
from goalrunner.cli.options import COUNT, File, Text, Texts, argument, option
from goalrunner.core.errors import ExitCode, RunNotFound, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Budget
from goalrunner.core.outcome import Usage
from goalrunner.records.run_folder import RunFolder
from goalrunner.reports.figures import count, spent
from goalrunner.reports.layout import lines_text, printable_line, table

_EXIT_CODES = {
    "complete": 0,
    "not complete": 1,
    "unreadable": 1,
    "not audited": 1,
    "judge failed": int(ExitCode.FAILED),
}
"""By the result of an audit."""
_RATE = options.checked(
    lambda text: rate if 0 <= (rate := float(text)) <= 1 else None,
    "a number from 0 to 1",
)
_STRICT = "the judge also refuses the unchanged copy, so its other answers say little; it may refuse every result"

VerdictsFile = Annotated[
    File,
    option(
        "FILE", "Keep the verdicts there; default: a file in GOAL_HOME.", "--output"
    ),
]
Jobs = Annotated[
    int,
    option(
        "N",
        "Transcripts that are judged at the same time.",
        "--jobs",
        "-j",
        parser=COUNT,
    ),
]


def judge_transcript(
    target: str | None,
    goal: Goal,
    *,
    format_: str | None,
    base: str | None,
    goal_file: Path | None,
    junit: Path | None,
    json: bool,
) -> int:
    """Judge one transcript and print the result, as `goal status` does; with `base`, run the validators, too."""
    from goalrunner.app.run_options import RunOptions
    from goalrunner.audits.pages import audit_facts, audit_value, audits_junit
    from goalrunner.audits.revision_checks import check_revision

    transcript = _transcript(target)
    copy = output.ResultFile(junit, option="--junit") if junit else None
    checks = None
    if base is not None:
        checks = main.wait_for(
            check_revision(
                goal, base, RunOptions(home=runs.home(), goal_file=goal_file)
            )
        )
    result = main.wait_for(
        audit_transcript(AuditJob(transcript, goal, format_), checks)
    )
    if copy is not None:
        copy.write(audits_junit([result]))
    not_run = bool(goal.validators) and base is None
    output.say(
        audit_value(result)
        if json
        else output.terminal_text(audit_facts(result, not_run=not_run))
    )
    return _EXIT_CODES[result.result]


def _transcript(target: str | None) -> str:
    if target is None:
        raise UsageError(
            "no transcript is given",
            "goal status TRANSCRIPT --objective TEXT --judge MODEL",
        )
    if target == options.STDIN or os.path.exists(target) or file_of_part(target):  # noqa: PTH110 - never raises
        return target
    try:
        return str(runs.find(target).transcript)
    except RunNotFound:
        raise UsageError(
            f"{target}: no such file or run", "goal list --all shows the runs"
        ) from None


def audit_goal(
    objective: str | None,
    goal_file: Path | None,
    judge: str | None,
    workspace: str | None = None,
    validators: list[str] | None = None,
) -> Goal:
    """Return the goal to judge by. It needs a judge, but neither an agent nor a validator. Raise UsageError."""
    if objective is None and goal_file is None:
        raise UsageError(
            "no objective to judge the transcript by",
            "add --objective TEXT or --goal FILE",
        )
    given = {
        "objective": objective,
        "judge.model": judge,
        "workspace.path": workspace,
        "validators": validators or None,
    }
    return judged_by(goals.resolved(goal_file, given))


def _budget(
    tokens: str | None, cost: str | None, unenforced: list[str] | None = None
) -> Budget:
    """Return the budget that options name. Raise GoalFileError, as for a goal file."""
    given = {
        "budget.tokens": tokens,
        "budget.cost_usd": cost,
        "budget.allow_unenforced": unenforced or None,
    }
    return goals.resolved(None, {"objective": "a budget", **given}).budget


def audit(
    transcripts: Annotated[
        list[str],
        argument("TRANSCRIPT", "Files, folders with transcripts, or patterns."),
    ],
    objective: Annotated[Text, option("TEXT", "Judge each by this objective.")] = None,
    goal: Annotated[
        File, option("FILE", "Judge each by this goal file; default: one beside each.")
    ] = None,
    judge: options.Judge = None,
    format_: options.Format = None,
    jobs: Jobs = 4,
    output_file: VerdictsFile = None,
    tokens: options.Tokens = None,
    cost: options.Cost = None,
    junit: options.JUnit = None,
    html: options.Html = None,
    json: Annotated[
        bool, options.flag("--json", "Print one line of JSON for each transcript.")
    ] = False,
) -> int:
    """Judge many saved transcripts: files, folders or patterns.

    A transcript that was judged before by the same goal and judge is not judged again, so an interrupted command can be
    repeated. A budget applies to one call of the command. The exit code is 0 if all are complete, 1 if one is not or
    cannot be read, 4 if the judge failed.
    """
    from goalrunner.audits.pages import (
        audit_value,
        audits_junit,
        audits_page,
        audits_table,
    )

    paths = find_transcripts(transcripts)
    if objective is not None or goal is not None:
        shared = audit_goal(objective, goal, judge)
        todo = [AuditJob(path, shared, format_) for path in paths]
    else:
        todo = [
            AuditJob(path, audit_goal(None, goal_beside(path), judge), format_)
            for path in paths
        ]
    wanted = (("--junit", junit, audits_junit), ("--html", html, audits_page))
    copies = [
        (output.ResultFile(path, option=option), text)
        for option, path, text in wanted
        if path
    ]
    kept = KeptVerdicts(output_file or runs.home() / "audits" / "verdicts.jsonl")
    budget = _budget(tokens, cost)
    check_judges(todo, budget)
    auditor = Auditor(kept, Spending(budget), on_end=_report_end)
    audits = [_of_this_call(one) for one in main.wait_for(auditor.run(todo, jobs))]
    if json:
        output.say(
            "".join(
                f"{dumps(audit_value(one), ensure_ascii=False)}\n" for one in audits
            )
        )
    else:
        output.say(audits_table(audits, output.columns()))
    for copy, text in copies:
        copy.write(text(audits))
    return max(_EXIT_CODES[one.result] for one in audits)


def _of_this_call(audit: TranscriptAudit) -> TranscriptAudit:
    """Return an audit with what it cost in this call: nothing if an earlier call made it."""
    return (
        audit.model_copy(update={"usage": Usage(), "seconds": 0.0})
        if audit.is_known
        else audit
    )


def _report_end(number: int, of: int, audit: TranscriptAudit) -> None:
    output.complain(
        f"[{number}/{of}] {audit.result}: {printable_line(audit.transcript)}"
    )


def calibrate(
    dataset: Annotated[
        Path, argument("DATASET", "JSON Lines with path, objective or goal, and label.")
    ],
    judge: Annotated[list[str], option("MODEL", "A judge; may be repeated.")],
    policy: Annotated[
        Texts,
        option(
            "NAME",
            "bounded (default), whole, no-citations; may be repeated.",
            parser=options.one_of(get_args(Policy)),
        ),
    ] = None,
    target_false_accept: Annotated[
        float | None,
        option("RATE", "Find the minimum_score for this rate, 0 to 1.", parser=_RATE),
    ] = None,
    jobs: Jobs = 4,
    tokens: options.Tokens = None,
    cost: options.Cost = None,
    allow_unenforced: options.Unenforced = None,
    results: VerdictsFile = None,
    html: options.Html = None,
    json: options.Json = False,
) -> int:
    """Measure how often judges are wrong, on labelled transcripts.

    A label says whether the work is really complete. Each verdict is appended to the results (default: a file in GOAL_HOME);
    after an interruption, the same command continues. A budget applies to one call of the command. The exit code is 1 if a
    sample does not count, audits remain, or no threshold has the wanted rate.
    """
    from goalrunner.audits.calibration import calibrate_judges
    from goalrunner.audits.calibration_pages import (
        calibration_page,
        calibration_report,
        calibration_text,
    )
    from goalrunner.audits.judge_statistics import Series, require_libraries

    policies = cast("list[Policy]", policy or ["bounded"])
    series = list(
        dict.fromkeys(Series(model, name) for model in judge for name in policies)
    )
    budget = _budget(tokens, cost, allow_unenforced)
    require_libraries()
    page = (
        output.ResultFile(html, {"the dataset": dataset}, "--html")
        if html is not None
        else None
    )
    digest = hashlib.sha256(
        os.path.realpath(dataset).encode(errors="surrogateescape")
    ).hexdigest()[:16]
    kept = KeptVerdicts(results or runs.home() / "calibrations" / f"{digest}.jsonl")
    work = calibrate_judges(
        dataset,
        series,
        kept,
        target_false_accept,
        jobs=jobs,
        budget=budget,
        on_end=_report_end,
    )
    found = main.wait_for(work)
    report = calibration_report(found)
    if page is not None:
        page.write(calibration_page(report))
    output.say(
        found.model_dump(mode="json")
        if json
        else calibration_text(report, output.columns())
    )
    has_no_threshold = any(not line.setting for line in report.thresholds)
    return int(bool(found.faults or found.audits.left or has_no_threshold))


def canary(
    target: Annotated[
        Text, argument("GOAL_FILE|RUN", "Default: goal.toml.", options.goal_files)
    ] = None,
    judge: Annotated[
        Text, option("NAME", "The model to test instead of the goal's judge.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Test whether a judge accepts work without proof.

    The judge audits copies of a run, or of a built-in example, from which the proof was removed: each copy that it calls
    complete is a miss. The exit code is 0 without a miss, 1 with one, 4 if the judge gave no answer that can be read.
    """
    folder: RunFolder | None = None
    if target is not None and not (runs.is_file(target) or target.endswith(".toml")):
        from goalrunner.app.previous_run import frozen_goal

        folder = runs.find(target)
        goal = frozen_goal(folder, os.environ, runnable=False)
        if judge is not None:
            goal = goal.model_copy(
                update={
                    "judge": goal.judge.model_copy(update={"model": judge, "use": ""})
                }
            )
    else:
        path = Path(target) if target is not None else goals.of_folder()
        goal = goals.resolved(
            path, {"objective": None if path else EXAMPLE, "judge.model": judge}
        )
    report = _questioned(judged_by(goal), folder)
    if json:
        output.say(report.model_dump(mode="json"))
    else:
        _print(report)
    return (
        1
        if report.misses
        else int(ExitCode.FAILED if report.unreadable else ExitCode.COMPLETE)
    )


def require_careful_judge(goal: Goal) -> None:
    """Ask the goal's judge about the built-in example. Raise GoalError if it accepts a copy without proof."""
    if not goal.has_judge:
        raise UsageError(
            "--canary needs a judge", "add --judge MODEL, or remove --canary"
        )
    report = _questioned(goal, None)
    canaries.refuse_credulous_judge(report)
    if not report.unchanged.judge_accepts:
        output.complain(f"Warning: {_STRICT}")


def _questioned(goal: Goal, folder: RunFolder | None) -> CanaryReport:
    output.complain(
        f"Asking the judge {goal.judge.words} about {len(MUTATIONS)} copies that prove nothing"
    )
    return main.wait_for(canaries.question_judge(goal, folder))


def _print(report: CanaryReport) -> None:
    rows = [(" ", "COPY", "JUDGE", "AFTER CHECK", "WHAT IS DIFFERENT")]
    words = {
        True: ("✗", "accepts"),
        False: ("✓", "refuses"),
        None: ("?", "not readable"),
    }
    for answer in (report.unchanged, *report.copies):
        mark, said = words[answer.judge_accepts]
        verdict = "complete" if answer.complete_after_check else "not complete"
        is_first = answer is report.unchanged
        rows.append(
            ("·" if is_first else mark, answer.name, said, verdict, answer.sentence)
        )
    output.say(lines_text(table(rows, output.columns())))
    survived = sum(
        bool(answer.judge_accepts) and answer.complete_after_check
        for answer in report.copies
    )
    missed = (
        f"{count(len(report.misses), 'miss', 'misses')} of {len(report.copies)} copies"
    )
    through = (
        f", {survived} of them complete after the check of the citations"
        if report.misses
        else ""
    )
    output.say(f"\n{missed}{through} · {' · '.join(spent(report.usage))}\n")
    if report.unchanged.judge_accepts is False:
        output.complain(f"Note: {_STRICT}")
