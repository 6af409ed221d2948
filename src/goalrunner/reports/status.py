"""The status of a run, as `goal status` shows it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from goalrunner.core.run_summary import LOST, RUNNING, UNREADABLE, RunSummary
from goalrunner.reports import figures
from goalrunner.reports.layout import (
    Fact,
    ReportLine,
    facts,
    nonempty_facts,
    output_lines,
)
from goalrunner.reports.next_steps import message_lines, next_steps
from goalrunner.reports.result_notes import (
    SHOWN_BY_PATHS,
    gone_lines,
    label_lines,
    protected_lines,
)
from goalrunner.reports.short_forms import home_path, model_name
from goalrunner.reports.terminal_text import cut, join_nonempty, printable_line

# Lines of what is missing that a status shows.
_MISSING_LINES = 5
# Columns of an action that waits for a person. The question itself shows all of it.
_LONGEST_ACTION = 120


def naming_lines(summary: RunSummary) -> Iterator[ReportLine]:
    """Yield id, goal and workspace of a run, for a question about it."""
    # An objective may have several lines, and this is a part of a question.
    goal = printable_line(summary.objective)
    yield from nonempty_facts({"run": summary.run_id, "goal": goal})
    yield from nonempty_facts({"workspace": home_path(summary.workspace)}, whole=True)


def status_lines(
    summary: RunSummary, now: datetime, folder: str = "", doing: str = ""
) -> Iterator[ReportLine]:
    """Yield state, rounds, verdict, limits and spend of a run.

    `folder` is the folder of the run, and `doing` what an active run does now.
    """
    rows = {
        "run": summary.run_id,
        "goal": summary.objective,
        "status": status_text(summary, now, doing),
    }
    yield from nonempty_facts(rows)
    yield from protected_lines(summary)
    if summary.status != "complete":
        yield from message_lines(summary.message)
    # Of a damaged log only the id and the damage are known.
    is_readable = summary.status != UNREADABLE
    if is_readable:
        yield from progress_lines(summary)
        yield from _setting(summary, now)
    yield from nonempty_facts({"folder": home_path(folder)}, whole=True)
    if is_readable:
        yield from next_steps(summary)


def status_text(summary: RunSummary, now: datetime, doing: str = "") -> str:
    """Return the status of a run with its reason, its step, or what it waits for.

    `doing` is what an active run does at this moment, if that is known.
    """
    if summary.status == LOST:
        return (
            f"{LOST}: its process has ended unexpectedly; "
            "everything that it recorded is kept"
        )
    if summary.waits_for:
        until = figures.time_ahead(summary.resume_at, now)
        return f"waiting: {summary.waits_for}, until {until}"
    # The lines below name the question and the command that answers it.
    if summary.status == RUNNING and (summary.waiting or summary.asks):
        return "waiting for you"
    if summary.status == RUNNING:
        step = doing or summary.current_step
        return f"{RUNNING}: {step}" if step else RUNNING
    reason = (summary.stop_reason or "").replace("_", " ")
    return f"{summary.status} ({reason})" if reason else summary.status


def progress_lines(summary: RunSummary) -> Iterator[ReportLine]:
    """Yield how far a run is: rounds, verdict, checks, and what waits for a person."""
    limit = summary.max_iterations
    limit_text = ", no limit" if limit is None else f" of {limit}"
    yield Fact("rounds", f"{summary.checked_rounds}{limit_text}")
    yield Fact("verdict", _verdict(summary))
    if summary.derived_criteria:
        first, *others = summary.derived_criteria
        criteria = [f"{first} (derived by the judge)", *others]
        yield from facts("criteria", criteria, whole=True)
    if summary.missing:
        yield from output_lines("missing", summary.missing, _MISSING_LINES)
    checks = []
    for check in summary.validators:
        # A summary of another version may lack a field.
        mark = "✓" if check.get("passed") is True else "✗"
        checks.append(f"{mark} {check.get('name', '?')}  {check.get('summary', '')}")
    yield from facts("checks", checks)
    yield from gone_lines(summary.run_id, summary.gone_or_reverted)
    for identifier, action in summary.waiting.items():
        short_action = cut(printable_line(action), _LONGEST_ACTION)
        yield Fact("waits", f"{identifier} {short_action}", tone="warn")
    for question in summary.open_questions:
        yield Fact("question", question, tone="warn")


def _verdict(summary: RunSummary) -> str:
    """Return score and result: "0.62 · not complete · 1 of 2 criteria"."""
    if summary.score is None:
        return "none yet" if summary.status == RUNNING else "none"
    result = "complete" if summary.complete else "not complete"
    parts = [figures.score(summary.score), result]
    if summary.criteria_total:
        total = figures.count(summary.criteria_total, "criterion", "criteria")
        parts.append(f"{summary.criteria_satisfied} of {total}")
    return " · ".join(parts)


def _setting(summary: RunSummary, now: datetime) -> Iterator[ReportLine]:
    """Yield models, labels, limits, spend and times."""
    judge = model_name(summary.judge_model) or "none; the validators decide"
    models = {"agent": model_name(summary.agent_model), "judge": judge}
    yield from nonempty_facts(models)
    yield from label_lines(summary.labels, hidden=SHOWN_BY_PATHS)
    rows = {
        "limits": figures.limits(summary.limits),
        "spent": figures.spend(summary),
        "redacted": figures.redacted_line(summary.redacted),
        "workspace": home_path(summary.workspace),
        "started": _when(summary.started_at, now),
    }
    if summary.status in (RUNNING, LOST):
        rows["updated"] = _when(summary.updated_at, now)
    else:
        rows["ended"] = _when(summary.finished_at, now)
    yield from nonempty_facts(rows)


def _when(moment: str, now: datetime) -> str:
    """Return an ISO 8601 time, and how long ago it was."""
    return join_nonempty(" · ", figures.moment(moment), figures.age(moment, now))
