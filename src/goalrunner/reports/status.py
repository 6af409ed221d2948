"""The state of one run, from its summary."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from goalrunner.reports import figures
from goalrunner.reports.line import Fact, Layout, Line, output_lines
from goalrunner.reports.listing import pending, waiting_facts
from goalrunner.reports.next_steps import label_lines, message_lines, next_steps, of_summary
from goalrunner.reports.summary import LOST, RUNNING, UNREADABLE, Summary, redacted_line
from goalrunner.reports.text import home_path, model_name, one_line

_TAIL = 5
"""Lines of a failed validator's output that are shown."""


def status_text(summary: Summary, *, now: datetime, folder: str = "", columns: int | None = None) -> str:
    """Return state, rounds, verdict, limits and spend of a run. `columns` is the width of a terminal; None is a pipe."""
    return Layout(columns).text(_lines(summary, now, folder))


def _lines(summary: Summary, now: datetime, folder: str) -> Iterator[Line]:
    yield Fact("run", summary.text("run_id"))
    if summary.text("objective"):
        yield Fact("goal", summary.text("objective"))
    yield Fact("status", _status(summary))
    if summary.status != "complete":
        yield from message_lines(summary.text("message"))
    readable = summary.text("status") != UNREADABLE
    if readable:
        yield from _progress(summary)
        yield from _setting(summary, now)
    if folder:
        yield Fact("folder", home_path(folder), whole=True)
    if readable:
        yield from next_steps(of_summary(summary, [identifier for identifier, _, _ in pending(summary)]))


def _status(summary: Summary) -> str:
    status, reason = summary.status, summary.text("stop_reason")
    if status == LOST:
        return f"{LOST}: process {summary.integer('pid')} has ended unexpectedly; everything that it recorded is kept"
    step = summary.text("current_step")
    if status == RUNNING:
        return f"{RUNNING}: {step}" if step else RUNNING
    return f"{status} ({reason.replace('_', ' ')})" if reason else status


def _progress(summary: Summary) -> Iterator[Line]:
    rounds, limit = summary.integer("iterations"), summary.number("max_iterations")
    yield Fact("rounds", f"{rounds} of {int(limit)}" if limit is not None else f"{rounds}, no limit")
    value = summary.number("score")
    if value is None:
        yield Fact("verdict", "none yet" if summary.status == RUNNING else "none")
    else:
        parts = [figures.score(value), "complete" if summary.values.get("complete") is True else "not complete"]
        if total := summary.integer("criteria_total"):
            parts.append(f"{summary.integer('criteria_satisfied')} of {figures.count(total, 'criterion', 'criteria')}")
        yield Fact("verdict", " · ".join(parts))
    if summary.text("missing"):
        yield from output_lines("missing", summary.text("missing"), _TAIL)
    for index, check in enumerate(summary.tables("validators")):
        mark = "✓" if check.get("passed") is True else "✗"
        text = f"{mark} {one_line(str(check.get('name', '?')))}  {one_line(str(check.get('summary', '')))}"
        yield Fact("checks" if index == 0 else "", text)
    yield from waiting_facts(summary)


def _setting(summary: Summary, now: datetime) -> Iterator[Line]:
    if summary.text("agent_model"):
        yield Fact("agent", model_name(summary.text("agent_model")))
    yield Fact("judge", model_name(summary.text("judge_model")) or "none; the validators decide")
    yield from label_lines(summary.texts("labels"))
    limits = [summary.limit(key) for key in ("max_iterations", "timeout", "tokens", "cost_usd")]
    yield Fact("limits", figures.limits(*limits))
    yield Fact("spent", summary.spend)
    if redacted := redacted_line(summary.counts("redacted")):
        yield Fact("redacted", redacted)
    if summary.text("workspace"):
        yield Fact("workspace", home_path(summary.text("workspace")))
    yield Fact("started", _time(summary.text("started_at"), now))
    if summary.status not in (RUNNING, LOST):
        yield Fact("ended", _time(summary.text("finished_at"), now))
    else:
        yield Fact("updated", _time(summary.text("updated_at"), now))


def _time(when: str, now: datetime) -> str:
    return " · ".join(part for part in (figures.moment(when), figures.age(when, now)) if part)
