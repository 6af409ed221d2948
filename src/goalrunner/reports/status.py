"""The state of one run as text, from its summary. Owns the picture of `goal status`; reads no log, asks no model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from goalrunner.reports import figures
from goalrunner.reports.line import Fact, Layout, plain
from goalrunner.reports.places import home_path, model_name
from goalrunner.reports.redacted import redacted_line
from goalrunner.reports.summary import LOST, RUNNING, UNREADABLE, Summary
from goalrunner.reports.terminal_text import one_line
from goalrunner.reports.waiting import waiting_facts


def status_text(summary: Mapping[str, Any], *, now: datetime, folder: str = "", columns: int | None = None) -> str:
    """The state, rounds, verdict, limits and spend of a run. `columns` is a terminal's width, None a pipe's."""
    layout = Layout(columns)
    facts = _facts(Summary(summary), now, folder)
    return "".join(plain(layout.rows(fact)) for fact in facts)


def _facts(summary: Summary, now: datetime, folder: str) -> Iterator[Fact]:
    yield Fact("run", summary.text("run_id"))
    if summary.text("objective"):
        yield Fact("goal", summary.text("objective"))
    yield Fact("status", _status(summary))
    yield from (Fact("", line, whole=True) for line in _message(summary).splitlines() if line.strip())
    if summary.text("status") != UNREADABLE:
        yield from _progress(summary)
        yield from _setting(summary, now)
    if folder:
        yield Fact("folder", home_path(folder), whole=True)


def _status(summary: Summary) -> str:
    status, reason = summary.status, summary.text("stop_reason")
    if status == LOST:
        return f"{LOST}: process {summary.integer('pid')} is gone; what it recorded is kept"
    step = summary.text("current_step")
    if status == RUNNING:
        return f"{RUNNING}: {step}" if step else RUNNING
    return f"{status} ({reason.replace('_', ' ')})" if reason else status


def _message(summary: Summary) -> str:
    return "" if summary.status == "complete" else summary.text("message")


def _progress(summary: Summary) -> Iterator[Fact]:
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
        yield Fact("missing", summary.text("missing"))
    checks = [
        f"{'✓' if passed else '✗'} {one_line(name)}  {one_line(said)}" for name, passed, said in summary.validators
    ]
    yield from (Fact("checks" if index == 0 else "", check) for index, check in enumerate(checks))
    yield from waiting_facts(summary)


def _setting(summary: Summary, now: datetime) -> Iterator[Fact]:
    if summary.text("agent_model"):
        yield Fact("agent", model_name(summary.text("agent_model")))
    yield Fact("judge", model_name(summary.text("judge_model")) or "none, the validators decide")
    if labels := summary.texts("labels"):
        yield Fact("labels", " · ".join(labels))
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
