"""The commands `goal audit`, `goal judge calibrate` and `goal judge canary`.

`goal status TRANSCRIPT` ends here as well, in `judge_transcript`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from json import dumps
from pathlib import Path
from typing import Annotated, Any, cast, get_args

from goalrunner.app.goal_models import require_judge
from goalrunner.audits import canaries
from goalrunner.audits.auditor import Auditor, check_judges
from goalrunner.audits.canaries import EXAMPLE, CanaryReport
from goalrunner.audits.canary_copies import MUTATIONS
from goalrunner.audits.kept_verdicts import KeptVerdicts, TranscriptAudit
from goalrunner.audits.spending import Spending
from goalrunner.audits.transcript_audits import (
    AuditJob,
    Policy,
    audit_transcript,
    path_text,
)
from goalrunner.audits.transcript_files import (
    TranscriptFiles,
    file_of_part,
    find_transcripts,
    goal_beside,
)
from goalrunner.cli import goals, main, options, output, runs
from goalrunner.cli.options import COUNT, File, Text, Texts, argument, option
from goalrunner.cli.result_file import ResultFile
from goalrunner.core.errors import ExitCode, GoalError, RunNotFound, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import Budget
from goalrunner.core.outcome import Usage
from goalrunner.records.run_folder import RunFolder
from goalrunner.reports.figures import count, spent
from goalrunner.reports.terminal_text import lines_text, printable_line, table

# By the result of an audit.
_EXIT_CODES = {
    "complete": 0,
    "not complete": 1,
    "unreadable": 1,
    "not audited": 1,
    "skipped": 0,
    "judge failed": int(ExitCode.FAILED),
}
# Mark and word by whether the judge accepts a copy that proves nothing.
_CANARY_ANSWERS = {
    True: ("✗", "accepts"),
    False: ("✓", "refuses"),
    None: ("?", "not readable"),
}
_STRICT_JUDGE = (
    "the judge also refuses the unchanged copy, so its other answers say little; "
    "it may refuse every result"
)


def _share(text: str) -> float | None:
    value = float(text)
    return value if 0 <= value <= 1 else None


_SHARE = options.checked(_share, "a number from 0 to 1")

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
    """Judge one transcript and print the result, as `goal status` does.

    With `base`, run the validators, too.
    """
    # Imported here, because `goal run` imports this module for --canary.
    from goalrunner.app.run_options import RunOptions
    from goalrunner.audits.pages import audit_facts, audit_value, audits_junit
    from goalrunner.audits.revision_checks import check_revision

    transcript = _transcript(target)
    # An output file that cannot be written is an error before the judge is paid.
    junit_file = ResultFile(junit, option="--junit") if junit else None
    checks = None
    if base is not None:
        run_options = RunOptions(home=runs.home(), goal_file=goal_file)
        checks = main.wait_for(check_revision(goal, base, run_options))
    job = AuditJob(transcript, goal, format_)
    finished_audit = main.wait_for(audit_transcript(job, checks))
    if junit_file is not None:
        junit_file.write(audits_junit([finished_audit]))
    if json:
        output.say(audit_value(finished_audit))
    else:
        not_run = bool(goal.validators) and base is None
        lines = audit_facts(finished_audit, validators_not_run=not_run)
        output.say(output.terminal_text(lines))
    return _EXIT_CODES[finished_audit.result]


def _transcript(target: str | None) -> str:
    """Return the transcript that a file, a folder, "-" or the name of a run names."""
    if target is None:
        raise UsageError(
            "no transcript is given",
            "goal status TRANSCRIPT --objective TEXT --judge MODEL",
        )
    # The method of Path raises errors for some invalid names.
    is_path = os.path.exists(target) or bool(file_of_part(target))  # noqa: PTH110
    if target == options.STDIN or is_path:
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
    """Return the goal to judge by. Raise UsageError.

    It needs a judge, but neither an agent nor a validator.
    """
    if objective is None and goal_file is None:
        raise UsageError(
            "no objective to judge the transcript by",
            "add --objective TEXT or --goal FILE",
        )
    settings = {
        "objective": objective,
        "judge.model": judge,
        "workspace.path": workspace,
        "validators": validators or None,
    }
    return require_judge(goals.resolved(goal_file, settings))


def _budget(
    tokens: str | None, cost: str | None, unenforced: list[str] | None = None
) -> Budget:
    """Return the budget that options name. Raise GoalFileError, as for a goal file."""
    settings = {
        # A goal needs an objective; only its budget is used.
        "objective": "a budget",
        "budget.tokens": tokens,
        "budget.cost_usd": cost,
        "budget.allow_unenforced": unenforced or None,
    }
    return goals.resolved(None, settings).budget


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
    watch: Annotated[
        bool,
        options.flag("--watch", "Judge each session of a folder when it has ended."),
    ] = False,
    json: Annotated[
        bool, options.flag("--json", "Print one line of JSON for each transcript.")
    ] = False,
) -> int:
    """Judge many saved transcripts: files, folders or patterns.

    A transcript that was judged before by the same goal and judge is not judged again,
    so an interrupted command can be repeated. A budget applies to one call of the
    command. The exit code is 0 if all are complete, 1 if one is not or cannot be read,
    4 if the judge failed.
    """
    from goalrunner.audits.pages import (
        audit_value,
        audits_junit,
        audits_page,
        audits_table,
    )

    verdicts = KeptVerdicts(output_file or runs.home() / "audits" / "verdicts.jsonl")
    budget = _budget(tokens, cost)
    if watch:
        if junit or html:
            raise UsageError("--watch has no end at which a report could be written")
        folder = Path(transcripts[0])
        if len(transcripts) > 1 or not folder.is_dir():
            raise UsageError("--watch needs one folder", "goal audit --watch FOLDER")
        make_job = partial(_audit_job, objective, goal, judge, format_)
        if objective is not None or goal is not None:
            check_judges([make_job(folder)], budget)
        auditor = Auditor(verdicts, Spending(budget))
        return _watch(folder, make_job, auditor, json=json)
    # A format that is forced holds for all files.
    files = find_transcripts(transcripts, skip=format_ is None)
    audit_jobs = _audit_jobs(files, objective, goal, judge, format_)
    # Output files that cannot be written are errors before the judge is paid.
    junit_file = ResultFile(junit, option="--junit") if junit else None
    html_file = ResultFile(html, option="--html") if html else None
    # A wrong key or an unknown model would make every audit fail.
    check_judges(audit_jobs, budget)
    auditor = Auditor(verdicts, Spending(budget), on_end=_report_end)
    results = main.wait_for(auditor.run(audit_jobs, jobs))
    audits = [_with_own_cost(result) for result in results]
    audits += _skipped(files)
    if json:
        lines = [f"{dumps(audit_value(one), ensure_ascii=False)}\n" for one in audits]
        output.say("".join(lines))
    else:
        output.say(audits_table(audits, output.columns()))
    if junit_file is not None:
        junit_file.write(audits_junit(audits))
    if html_file is not None:
        html_file.write(audits_page(audits))
    return max(_EXIT_CODES[one.result] for one in audits)


def _audit_jobs(
    files: TranscriptFiles,
    objective: str | None,
    goal_file: Path | None,
    judge: str | None,
    format_: str | None,
) -> list[AuditJob]:
    """Return an audit for each path, by the goal of the options or by its own."""
    audit_jobs = []
    for path in files.paths:
        job = _audit_job(objective, goal_file, judge, format_, path)
        is_from_folder = path in files.from_folders
        audit_jobs.append(replace(job, is_from_folder=is_from_folder))
    return audit_jobs


def _audit_job(
    objective: str | None,
    goal_file: Path | None,
    judge: str | None,
    format_: str | None,
    path: Path,
) -> AuditJob:
    """Return the audit of a path, by the goal of the options or by its own."""
    if objective is None and goal_file is None:
        goal_file = goal_beside(path)
    return AuditJob(path, audit_goal(objective, goal_file, judge), format_)


def _watch(
    folder: Path,
    make_job: Callable[[Path], AuditJob],
    auditor: Auditor,
    *,
    json: bool,
) -> int:
    """Judge the sessions of a folder as they end, until the budget is spent."""
    from goalrunner.audits.pages import audit_value
    from goalrunner.audits.watching import EndedSessions, audit_ended

    output.complain(f"Watching {printable_line(str(folder))}; Ctrl+C ends it")

    async def audit_one(path: Path) -> bool:
        try:
            job = make_job(path)
        except GoalError as error:
            output.complain(f"{printable_line(str(path))}: {error.message}")
            return True
        (finished_audit,) = await auditor.run([job])
        if json:
            output.say(f"{dumps(audit_value(finished_audit), ensure_ascii=False)}\n")
        else:
            output.say(f"{_result_line(finished_audit)}\n")
        return finished_audit.result != "not audited"

    main.wait_for(audit_ended(EndedSessions(folder), audit_one))
    return _EXIT_CODES["not audited"]


def _result_line(audit: TranscriptAudit) -> str:
    path, missing = printable_line(audit.transcript), printable_line(audit.missing)
    return f"{audit.result}: {path}" + (f": {missing}" if missing else "")


def _skipped(files: TranscriptFiles) -> list[TranscriptAudit]:
    """Return a row for each file in a folder that is not a transcript of its own."""
    rows = []
    for path, reason in files.skipped.items():
        row = TranscriptAudit(
            transcript=path_text(path), result="skipped", problem=reason
        )
        rows.append(row)
    return rows


def _with_own_cost(audit: TranscriptAudit) -> TranscriptAudit:
    """Return an audit with what it cost this command."""
    if not audit.was_kept:
        return audit
    # An earlier command made and paid it.
    return audit.model_copy(update={"usage": Usage(), "seconds": 0.0})


def _report_end(number: int, total: int, audit: TranscriptAudit) -> None:
    output.complain(
        f"[{number}/{total}] {audit.result}: {printable_line(audit.transcript)}"
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
        option("RATE", "Find the minimum_score for this rate, 0 to 1.", parser=_SHARE),
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

    A label says whether the work is really complete. Each verdict is appended to the
    results (default: a file in GOAL_HOME); after an interruption, the same command
    continues. A budget applies to one call of the command. The exit code is 1 if a
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
    # A judge or policy may be named twice.
    series = dict.fromkeys(Series(model, name) for model in judge for name in policies)
    budget = _budget(tokens, cost, allow_unenforced)
    # Missing libraries are an error before the judges are paid.
    require_libraries()
    page_file = None
    if html is not None:
        page_file = ResultFile(html, {"the dataset": dataset}, "--html")
    calibration = main.wait_for(
        calibrate_judges(
            dataset,
            list(series),
            KeptVerdicts(results or _results_file(dataset)),
            target_false_accept,
            jobs=jobs,
            budget=budget,
            on_end=_report_end,
        )
    )
    report = calibration_report(calibration)
    if page_file is not None:
        page_file.write(calibration_page(report))
    if json:
        output.say(calibration.model_dump(mode="json"))
    else:
        output.say(calibration_text(report, output.columns()))
    has_no_threshold = any(not line.setting for line in report.thresholds)
    is_incomplete = calibration.faults or calibration.audits.left
    return int(bool(is_incomplete or has_no_threshold))


def _results_file(dataset: Path) -> Path:
    """Return the file of verdicts of a dataset, by the real path of the dataset."""
    path = os.path.realpath(dataset).encode(errors="surrogateescape")
    digest = hashlib.sha256(path).hexdigest()[:16]
    return runs.home() / "calibrations" / f"{digest}.jsonl"


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

    The judge audits copies of a run, or of a built-in example, from which the proof was
    removed: each copy that it calls complete is a miss. The exit code is 0 without a
    miss, 1 with one, 4 if the judge gave no answer that can be read.
    """
    folder: RunFolder | None = None
    is_run = target is not None and not (
        runs.is_file(target) or target.endswith(".toml")
    )
    if target is not None and is_run:
        from goalrunner.app.stored_goal import frozen_goal

        folder = runs.find(target)
        goal = frozen_goal(folder, os.environ, runnable=False)
        if judge is not None:
            update = {"model": judge, "use": ""}
            judge_config = goal.judge.model_copy(update=update)
            goal = goal.model_copy(update={"judge": judge_config})
    else:
        path = Path(target) if target is not None else goals.of_folder()
        # Without a goal file, the built-in example is the goal.
        settings: dict[str, Any] = {"objective": None if path else EXAMPLE}
        goal = goals.resolved(path, {**settings, "judge.model": judge})
    report = _question_judge(require_judge(goal), folder)
    if json:
        output.say(report.model_dump(mode="json"))
    else:
        _print_canaries(report)
    if report.misses:
        return 1
    return int(ExitCode.FAILED if report.unreadable else ExitCode.COMPLETE)


def require_careful_judge(goal: Goal) -> None:
    """Ask the goal's judge about the built-in example.

    Raise GoalError if it accepts a copy without proof.
    """
    if not goal.has_judge:
        raise UsageError(
            "--canary needs a judge", "add --judge MODEL, or remove --canary"
        )
    report = _question_judge(goal, None)
    canaries.refuse_credulous_judge(report)
    if not report.unchanged.judge_accepts:
        output.complain(f"Warning: {_STRICT_JUDGE}")


def _question_judge(goal: Goal, folder: RunFolder | None) -> CanaryReport:
    output.complain(
        f"Asking the judge {goal.judge.words} about {len(MUTATIONS)} copies "
        "that prove nothing"
    )
    return main.wait_for(canaries.question_judge(goal, folder))


def _print_canaries(report: CanaryReport) -> None:
    rows = [(" ", "COPY", "JUDGE", "AFTER CHECK", "WHAT IS DIFFERENT")]
    for answer in (report.unchanged, *report.copies):
        mark, word = _CANARY_ANSWERS[answer.judge_accepts]
        # The unchanged trail is there to compare with; accepting it is no miss.
        if answer is report.unchanged:
            mark = "·"
        verdict = "complete" if answer.complete_after_check else "not complete"
        rows.append((mark, answer.name, word, verdict, answer.sentence))
    output.say(lines_text(table(rows, output.columns())))
    misses = count(len(report.misses), "miss", "misses")
    text = f"{misses} of {len(report.copies)} copies"
    if report.misses:
        survivors = sum(
            bool(copy.judge_accepts) and copy.complete_after_check
            for copy in report.copies
        )
        text += f", {survivors} of them complete after the check of the citations"
    output.say(f"\n{text} · {' · '.join(spent(report.usage))}\n")
    if report.unchanged.judge_accepts is False:
        output.complain(f"Note: {_STRICT_JUDGE}")
