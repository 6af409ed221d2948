"""Agents, diagnoses, memory and runs as tables and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goalrunner.core.run_summary import RUNNING, RunSummary
from goalrunner.reports import figures
from goalrunner.reports.layout import (
    Fact,
    ReportLine,
)
from goalrunner.reports.short_forms import home_path
from goalrunner.reports.status import status_text
from goalrunner.reports.terminal_text import (
    cut,
    lines_text,
    printable_line,
    table,
    table_room,
    wrap,
)

if TYPE_CHECKING:
    from goalrunner.agents.facts import AgentFacts
    from goalrunner.app.doctor import Diagnosis
    from goalrunner.app.external_agent import Finding
    from goalrunner.app.memory import MemoryItem
    from goalrunner.app.run_snapshots import OldRun

_AGENT_HEADINGS = (
    "AGENT",
    "VERSION",
    "DRIVEN BY",
    "RESUME",
    "USAGE",
    "COST",
    "CANCEL",
    "ASKS",
    "SANDBOX",
    "FROM",
)
_ABILITIES = ("resume", "usage", "cost", "cancel", "permission", "sandbox")
_OTHERS = 'Any other program can be an agent: [agent] use = "command" or "acp".'
_MARKS = {"good": "✓", "bad": "✗", "note": "·"}
_MEMORY_HEADINGS = ("ID", "KIND", "OWNER", "SOURCE", "SENSITIVITY", "EXPIRES", "TEXT")
_MIN_TEXT = 20
_UNKNOWN = "unknown"
"""Shown if the usage is unknown; a dash: nothing was used."""
_MIN_GOAL, _NARROWEST = 16, 8
"""With fewer columns for the goal, the figures are left out; it always has the second number."""
_ROWS = 4
"""Rows of a terminal that the labels of a run may take."""
_WAITING = 5
"""Waiting runs that are listed below the table."""


def agents_text(found: Sequence[AgentFacts], columns: int | None = None) -> str:
    """Return a row for each agent, then how to install missing ones. `columns` is the width of a terminal.

    The table is cut to the width, commands are not. The column FROM is left out if all agents are built in.
    """
    last = -1 if all(one.origin == "built in" for one in found) else None
    rows = table([row[:last] for row in (_AGENT_HEADINGS, *map(_agent_cells, found))])
    if columns is not None:
        rows = [cut(row, columns) for row in rows]
    if missing := [
        (one.name, printable_line(one.install))
        for one in found
        if not one.installed and one.install
    ]:
        rows += ["", "not installed:", *table(missing)]
    return lines_text([*rows, "", *wrap(_OTHERS, columns or len(_OTHERS), _ROWS)])


def _agent_cells(one: AgentFacts) -> tuple[str, ...]:
    usual, *others = one.ways
    found = [way for way in one.ways if way.is_installed] or one.ways
    version = (printable_line(one.version) or _UNKNOWN) if one.installed else "-"
    abilities = []
    for name in _ABILITIES:  # whether the agent can do it when driven in the usual way, else the way in which it can
        other = next((way.by for way in others if getattr(way.can, name)), "no")
        abilities.append("yes" if getattr(usual.can, name) else other)
    return (
        printable_line(one.name),
        version,
        "+".join(way.by for way in found),
        *abilities,
        one.origin,
    )


def diagnosis_lines(diagnosis: Diagnosis) -> Iterator[ReportLine]:
    """Yield a line for each check, with the command that repairs it, and the result."""
    yield Fact("agent", diagnosis.agent)
    yield from check_lines(diagnosis.checks)
    if diagnosis.used is not None:
        yield Fact("used", " · ".join(figures.spent(diagnosis.used)))
    problems = figures.count(
        sum(check.state == "bad" for check in diagnosis.checks), "problem"
    )
    yield Fact(
        "",
        f"{diagnosis.agent} {'can be used' if diagnosis.usable else f'cannot be used: {problems} found'}",
    )


def diagnosis_value(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as a JSON value."""
    used = diagnosis.used.model_dump(mode="json") if diagnosis.used else None
    checks = [check.value() for check in diagnosis.checks]
    return {
        "agent": diagnosis.agent,
        "usable": diagnosis.usable,
        "checks": checks,
        "usage": used,
    }


def check_lines(checks: Sequence[Finding]) -> Iterator[ReportLine]:
    """Yield a line for each check, and the command that repairs it."""
    for check in checks:
        yield Fact(check.name, f"{_MARKS[check.state]} {check.message}")
        yield from (
            Fact("", f"  {line}", whole=True) for line in check.hint.splitlines()
        )


def memory_text(
    items: Sequence[MemoryItem], *, now: datetime, columns: int | None = None
) -> str:
    """Return a row for each item, oldest first; empty for none. `columns` is the width of a terminal."""
    rows: list[tuple[str, ...]] = [_MEMORY_HEADINGS]
    for item in items:
        until = item.expires_at[:10] if item.expires_at else "never"
        if item.is_expired(now):
            until = "expired"
        source = f"{item.source_ref} of {item.run_id}"
        cells = (
            item.memory_id,
            item.kind,
            item.owner,
            source,
            item.sensitivity,
            until,
            item.text,
        )
        rows.append(tuple(map(printable_line, cells)))
    return lines_text(table(rows, columns, _MIN_TEXT)) if items else ""


def forgotten_text(items: Sequence[MemoryItem]) -> str:
    """Return the text about items that were removed."""
    return lines_text(
        [f"forgotten  {item.memory_id}  {printable_line(item.text)}" for item in items]
    )


def listing_text(
    summaries: Sequence[RunSummary],
    now: datetime,
    columns: int | None = None,
    *,
    with_workspaces: bool = False,
) -> str:
    """Return a row for each run, in the order given; empty for none. `columns` is the width of a terminal.

    With workspaces, their paths have a column. On a terminal, goals are cut to the width, and figures are left out if that
    is not enough; `goal status` shows them.
    """
    if not summaries:
        return ""
    rows = [
        _run_row(summary, now, with_workspace=with_workspaces) for summary in summaries
    ]
    cells = [list(rows[0]), *(list(row.values()) for row in rows)]
    if columns is not None and table_room(cells, columns) < _MIN_GOAL:
        cells = [[row[0], row[1], row[-1]] for row in cells]
    lines = table(cells, columns, _NARROWEST)
    waiting = [line for summary in summaries if (line := waiting_line(summary, now))]
    if waiting:
        lines += ["", *waiting[:_WAITING]]
    if len(waiting) > _WAITING:
        lines.append(f"and {len(waiting) - _WAITING} more runs wait")
    return lines_text(lines)


def _run_row(
    summary: RunSummary, now: datetime, *, with_workspace: bool
) -> dict[str, str]:
    """Return the cells of a run by their headings."""
    limit, names = summary.max_iterations, _label_names(summary)
    tokens = cost = "-"
    if summary.has_spent:
        tokens = _UNKNOWN
        if summary.tokens is not None:
            tokens = f"{'>= ' if summary.uncounted_calls else ''}{summary.tokens:,}"
        _, cost = figures.spent(summary)
        cost = cost.replace(figures.UNKNOWN_COST, _UNKNOWN).replace("at least ", ">= ")
    row = {
        "RUN": printable_line(summary.run_id),
        "STATUS": "waiting" if _is_waiting(summary) else printable_line(summary.status),
        "ROUNDS": str(summary.checked_rounds)
        if limit is None
        else f"{summary.checked_rounds}/{limit}",
        "SCORE": "-" if summary.score is None else figures.score(summary.score),
        "TOKENS": tokens,
        "COST": cost,
        "STARTED": figures.age(summary.started_at, now) or "-",
    }
    if with_workspace:
        row["WORKSPACE"] = home_path(summary.workspace) or "-"
    row["GOAL"] = printable_line(
        f"[{names}] {summary.objective}" if names else summary.objective
    )
    return row


def _label_names(summary: RunSummary) -> str:
    """Return the labels of a run without their paths."""
    names = dict.fromkeys(label.partition(":")[0] for label in summary.labels)
    return printable_line(", ".join(names))


def old_run_line(run: OldRun) -> str:
    """Return a line about a run that could be removed: its id, how it ended, its workspace and its goal."""
    summary = RunSummary.read(run.summary)
    parts = [
        run.folder.run_id,
        run.why,
        home_path(summary.workspace),
        printable_line(summary.objective),
    ]
    return "  ".join(filter(None, parts))


def _waits(summary: RunSummary) -> bool:
    """Return whether a run waits for a limit to reset; its process may be gone."""
    return bool(summary.waits_for) and summary.status == RUNNING


def _is_waiting(summary: RunSummary) -> bool:
    """Return whether a running run waits for a limit or a person."""
    asks = bool(summary.waiting) or summary.asks
    return _waits(summary) or (asks and summary.status == RUNNING)


def waiting_line(summary: RunSummary, now: datetime) -> str:
    """Return a line for a list of runs with what a run waits for; empty if it does not wait."""
    run = printable_line(summary.run_id)
    if _waits(summary):
        return f"{run} {printable_line(status_text(summary, now))}"
    if summary.status == RUNNING and not (summary.waiting or summary.asks):
        return ""
    if summary.waiting or (
        summary.stop_reason == "question_open" and summary.open_questions
    ):
        return f"{run} waits for you: goal status {run}"
    return ""
