"""`goal calibrate`: how often judges are wrong, measured on labelled transcripts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from typer import Argument, Option

from goalrunner.cli import goals, main, output, runs
from goalrunner.cli.options import Cost, Json, Tokens
from goalrunner.core.errors import UsageError

if TYPE_CHECKING:
    from goalrunner.app.calibration import Series

NOT_ALL = 1
"""Exit code if a sample does not count, audits are left, or no threshold has the wanted rate."""
_REPORTS = 20
"""Lines of progress."""


def calibrate(
    dataset: Annotated[
        Path, Argument(metavar="DATASET", readable=False, help="JSON Lines with path, objective or goal, and label.")
    ],
    judge: Annotated[list[str] | None, Option(metavar="MODEL", help="A judge; may be repeated.")] = None,
    policy: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="bounded (as in a run, default), whole, no-citations; may be repeated."),
    ] = None,
    target_false_accept: Annotated[
        float | None,
        Option(metavar="RATE", help="Find the minimum_score with this rate of false accepts, such as 0.01."),
    ] = None,
    jobs: Annotated[int, Option(metavar="N", min=1, help="Transcripts that are judged at a time.")] = 4,
    tokens: Tokens = None,
    cost: Cost = None,
    allow_unenforced: Annotated[
        list[str] | None,
        Option(metavar="BUDGET", help="tokens or cost_usd: count only what is known; may be repeated."),
    ] = None,
    results: Annotated[
        Path | None,
        Option("--output", metavar="FILE", readable=False, help="The verdicts, as JSON Lines; known ones are kept."),
    ] = None,
    html: Annotated[
        Path | None, Option("--html", metavar="FILE", readable=False, help="Write a page with the curves there.")
    ] = None,
    json: Json = False,
) -> int:
    """Measure how often judges are wrong, on labelled transcripts.

    A label says whether the work is really complete. Each verdict is appended to the results (default: a file in GOAL_HOME),
    and the same command continues. A budget is for one call. The exit code is 1 if a sample does not count, audits are
    left, or no threshold has the wanted rate.
    """
    import asyncio

    from goalrunner.app.calibration import calibrate as calibrated
    from goalrunner.app.calibration import read_dataset
    from goalrunner.app.judge_statistics import require_libraries, statistics_of
    from goalrunner.app.kept_verdicts import KeptVerdicts
    from goalrunner.reports.calibration import CalibrationReport, calibration_page, calibration_text, calibration_value
    from goalrunner.reports.result_file import ResultFile

    if target_false_accept is not None and not 0 <= target_false_accept < 1:
        raise UsageError(f"--target-false-accept: {target_false_accept:g} is not a rate", "use one such as 0.01")
    series = _series(judge or [], policy or ["bounded"])
    budget = goals.budget_of(tokens, cost, allow_unenforced)
    samples = read_dataset(dataset)
    require_libraries()
    page = ResultFile(html, {"the dataset": dataset}, "--html") if html is not None else None
    kept = KeptVerdicts(results or _default_results(dataset))
    main.collect_garbage()
    found = asyncio.run(calibrated(samples, series, kept, jobs=jobs, budget=budget, on_audit=_progress))
    report = CalibrationReport(found, statistics_of(found, target_false_accept), dataset, kept.path)
    if page is not None:
        page.write(calibration_page(report))
    if json:
        output.say_json(calibration_value(report))
    else:
        output.say(calibration_text(report, output.columns()))
    unreached = any(not line for _, _, line in report.thresholds)
    return NOT_ALL if found.faults or found.left or unreached else 0


def _series(judges: list[str], policies: list[str]) -> list[Series]:
    """Return each judge under each policy. Raise UsageError."""
    from goalrunner.app.audits import Policy
    from goalrunner.app.calibration import Series

    if not judges:
        raise UsageError("no judge is given", "add --judge MODEL; several are compared")
    known: dict[str, Policy] = {name: name for name in get_args(Policy)}
    for name in policies:
        if name not in known:
            raise UsageError(f'--policy: "{name}" is not a policy', f"valid: {', '.join(known)}")
    return list(dict.fromkeys(Series(judge, known[policy]) for judge in judges for policy in policies))


def _default_results(dataset: Path) -> Path:
    """Return the file in GOAL_HOME for the dataset at this path."""
    name = hashlib.sha256(os.path.realpath(dataset).encode(errors="surrogateescape")).hexdigest()[:16]
    return runs.home() / "calibrations" / f"{name}.jsonl"


def _progress(done: int, of: int) -> None:
    """Print a line on stderr for about each twentieth of the audits."""
    if done * _REPORTS // of > (done - 1) * _REPORTS // of:
        output.complain(f"{done:,} of {of:,} verdicts")
