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
    cut,
    home_path,
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

_AGENT_HEADINGS = ("AGENT", "VERSION", "DRIVEN BY", "RESUME", "USAGE", "COST", "CANCEL", "ASKS", "SANDBOX", "FROM")
_ABILITIES = ("resume", "usage", "cost", "cancel", "permission", "sandbox")
_OTHERS = 'Any other program can be an agent: [agent] use = "command" or "acp".'
_MARKS = {"good": "✓", "bad": "✗", "note": "·"}
_MEMORY_HEADINGS = ("ID", "KIND", "OWNER", "SOURCE", "SENSITIVITY", "EXPIRES", "TEXT")
_MIN_TEXT = 20
_RUN_HEADINGS = ("RUN", "STATUS", "ROUNDS", "SCORE", "TOKENS", "COST", "STARTED", "GOAL")
_UNKNOWN = "unknown"
"""Shown if the usage is unknown; a dash: nothing was used."""
_MIN_GOAL, _NARROWEST = 16, 8
"""With fewer columns for the goal, other columns are left out; it always has the second number."""
_DISPENSABLE = ("SCORE", "COST", "TOKENS", "ROUNDS", "STARTED")
"""Columns that are left out on a narrow terminal, in this order; `goal status` shows them."""
_WORKSPACE = 32
"""Characters of a workspace that a terminal shows."""
_ROWS = 4
"""Rows of a terminal that the labels of a run may take."""
_LONGEST_QUESTION = 120
_WAITING = 5
"""Waiting runs that are listed below the table."""


def agents_text(found: Sequence[AgentFacts], columns: int | None = None) -> str:
    """Return a row for each agent, then how to install missing ones. `columns` is the width of a terminal.

    The table is cut to the width, commands are not. The column FROM is left out if all agents are built in.
    """
    shown = -1 if all(one.origin == "built in" for one in found) else None
    cells = [_AGENT_HEADINGS[:shown], *(_agent_cells(one)[:shown] for one in found)]
    rows = [row if columns is None else cut(row, columns) for row in table(cells)]
    if missing := [(one.name, printable_line(one.install)) for one in found if not one.installed and one.install]:
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
    return (printable_line(one.name), version, "+".join(way.by for way in found), *abilities, one.origin)


def diagnosis_lines(diagnosis: Diagnosis) -> Iterator[ReportLine]:
    """Yield a line for each check, with the command that repairs it, and the result."""
    yield Fact("agent", diagnosis.agent)
    yield from check_lines(diagnosis.checks)
    if diagnosis.used is not None:
        yield Fact("used", " · ".join(figures.spent(diagnosis.used)))
    problems = figures.count(sum(check.state == "bad" for check in diagnosis.checks), "problem")
    yield Fact("", f"{diagnosis.agent} {'can be used' if diagnosis.usable else f'cannot be used: {problems} found'}")


def diagnosis_value(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as a JSON value."""
    used = diagnosis.used.model_dump(mode="json") if diagnosis.used else None
    checks = [check.value() for check in diagnosis.checks]
    return {"agent": diagnosis.agent, "usable": diagnosis.usable, "checks": checks, "usage": used}


def check_lines(checks: Sequence[Finding]) -> Iterator[ReportLine]:
    """Yield a line for each check, and the command that repairs it."""
    for check in checks:
        yield Fact(check.name, f"{_MARKS[check.state]} {check.message}")
        yield from (Fact("", f"  {line}", whole=True) for line in check.hint.splitlines())


def memory_text(items: Sequence[MemoryItem], *, now: datetime, columns: int | None = None) -> str:
    """Return a row for each item, oldest first; empty for none. `columns` is the width of a terminal."""
    rows: list[tuple[str, ...]] = [_MEMORY_HEADINGS]
    for item in items:
        source = f"{item.source_ref} of {printable_line(item.run_id)}"
        until = item.expires_at[:10] if item.expires_at else "never"
        if item.is_expired(now):
            until = "expired"
        row = (
            item.memory_id,
            item.kind,
            printable_line(item.owner),
            source,
            item.sensitivity,
            until,
            printable_line(item.text),
        )
        rows.append(row)
    return lines_text(table(rows, columns, _MIN_TEXT)) if items else ""


def promoted_text(item: MemoryItem) -> str:
    """Return the text about an item that was kept."""
    until = f" until {item.expires_at[:10]}" if item.expires_at else ""
    corrected = f", in place of {item.replaces}" if item.replaces else ""
    source = f'{item.kind} from {item.source_ref} of run {item.run_id}, for runs of "{printable_line(item.owner)}"'
    return f"{item.memory_id}  {source}{until}{corrected}\n{printable_line(item.text)}\n"


def forgotten_text(items: Sequence[MemoryItem]) -> str:
    """Return the text about items that were removed."""
    return lines_text([f"forgotten  {item.memory_id}  {printable_line(item.text)}" for item in items])


def listing_text(
    summaries: Sequence[RunSummary],
    now: datetime,
    columns: int | None = None,
    *,
    with_workspaces: bool = False,
) -> str:
    """Return a row for each run, in the order given; empty for none. `columns` is the width of a terminal.

    With workspaces, their paths have a column. On a terminal, goals are cut to the width and long paths at their
    beginnings, columns are left out if that is not enough, and labels have a row of their own.
    """
    if not summaries:
        return ""
    cells: list[tuple[str, ...]] = [_RUN_HEADINGS]
    cells += (_run_cells(summary, now, with_labels=columns is None) for summary in summaries)
    if with_workspaces:
        paths = [home_path(summary.workspace) or "-" for summary in summaries]
        if columns is not None:
            paths = [path if len(path) <= _WORKSPACE else f"…{path[1 - _WORKSPACE :]}" for path in paths]
        cells = [(*row[:-1], path, row[-1]) for row, path in zip(cells, ["WORKSPACE", *paths], strict=True)]
    for name in _DISPENSABLE:
        if columns is None or table_room(cells, columns) >= _MIN_GOAL:
            break
        place = cells[0].index(name)
        cells = [(*row[:place], *row[place + 1 :]) for row in cells]
    heading, *rows = table(cells, columns, _NARROWEST)
    lines = [heading]
    for row, summary in zip(rows, summaries, strict=True):
        lines.append(row)
        if columns is not None and summary.labels:
            labels = wrap(f"labels: {_label_names(summary)}", columns - 2, _ROWS)
            lines += [f"  {part}" for part in labels]
    waiting = [line for line in map(waiting_line, summaries) if line]
    if waiting:
        lines += ["", *waiting[:_WAITING]]
    if len(waiting) > _WAITING:
        lines.append(f"and {len(waiting) - _WAITING} more runs wait")
    return lines_text(lines)


def _run_cells(summary: RunSummary, now: datetime, *, with_labels: bool) -> tuple[str, ...]:
    limit, names = summary.max_iterations, _label_names(summary)
    goal = f"[{names}] {summary.objective}" if with_labels and names else summary.objective
    tokens = cost = "-"
    if summary.has_spent:
        tokens = _UNKNOWN
        if summary.tokens is not None:
            tokens = f"{'>= ' if summary.uncounted_calls else ''}{summary.tokens:,}"
        _, cost = figures.spent(summary)
        cost = cost.replace(figures.UNKNOWN_COST, _UNKNOWN).replace("at least ", ">= ")
    return (
        printable_line(summary.run_id),
        printable_line(summary.status),
        str(summary.checked_rounds) if limit is None else f"{summary.checked_rounds}/{limit}",
        "-" if summary.score is None else figures.score(summary.score),
        tokens,
        cost,
        figures.age(summary.started_at, now) or "-",
        printable_line(goal),
    )


def _label_names(summary: RunSummary) -> str:
    """Return the labels of a run without their paths."""
    names = dict.fromkeys(label.partition(":")[0] for label in summary.labels)
    return printable_line(", ".join(names))


def old_run_line(run: OldRun) -> str:
    """Return a line about a run that could be removed: its id, how it ended, its workspace and its goal."""
    summary = RunSummary.read(run.summary)
    parts = [run.folder.run_id, run.why, home_path(summary.workspace), printable_line(summary.objective)]
    return "  ".join(filter(None, parts))


def waiting_line(summary: RunSummary) -> str:
    """Return a line for a list of runs with the command that shows what waits; empty if nothing does."""
    run, questions = printable_line(summary.run_id), summary.open_questions
    if summary.status == RUNNING:
        return ""
    if summary.waiting:
        return f"{run} waits for your approval: goal status {run}"
    if summary.stop_reason == "question_open" and questions:
        return f'{run} asks: {cut(printable_line(questions[0]), _LONGEST_QUESTION)}  goal answer {run} "..."'
    return ""
