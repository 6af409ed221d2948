"""Agents, diagnoses, memory and runs as tables and lines; what a run waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goalrunner.reports import figures
from goalrunner.reports.labels import label_names
from goalrunner.reports.layout import Fact, Layout, Line, cut, one_line, pad, width, wrap
from goalrunner.reports.summary import RUNNING, Summary

if TYPE_CHECKING:
    from goalrunner.app.agents import AgentFacts, Check
    from goalrunner.app.doctor import Diagnosis
    from goalrunner.core.events import RiskClass
    from goalrunner.core.goal_tables import Approvals
    from goalrunner.records.memory import MemoryItem


def table(rows: Sequence[Sequence[str]], columns: int | None = None, least: int = 0) -> list[str]:
    """Return rows with aligned cells. The last column is cut to a terminal's width, but not below `least` columns."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    room = widths[-1] if columns is None else max(table_room(rows, columns), least)
    padded = [[pad(cell, wide) for cell, wide in zip(row[:-1], widths, strict=False)] for row in rows]
    return ["  ".join([*cells, cut(row[-1], room)]).rstrip() for cells, row in zip(padded, rows, strict=True)]


def table_room(rows: Sequence[Sequence[str]], columns: int) -> int:
    """Return the columns that are left for the last column of a table."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return columns - sum(widths[:-1]) - 2 * (len(widths) - 1)


_AGENT_HEADINGS = ("AGENT", "VERSION", "DRIVEN BY", "RESUME", "USAGE", "COST", "CANCEL", "ASKS", "SANDBOX", "FROM")
_ABILITIES = ("resume", "usage", "cost", "cancel", "permission", "sandbox")
_OTHERS = 'Any other program can be an agent: [agent] use = "command" or "acp".'


def agents_text(facts: Sequence[AgentFacts], columns: int | None = None) -> str:
    """Return a row for each agent, then how to install missing ones. `columns` is the width of a terminal.

    The table is cut to the width, commands are not. The column FROM is left out if all agents are built in.
    """
    cells = [_AGENT_HEADINGS, *(_agent_cells(one) for one in facts)]
    if all(one.origin == "built in" for one in facts):
        cells = [row[:-1] for row in cells]
    rows = [row if columns is None else cut(row, columns) for row in table(cells)]
    missing = [(one.name, one_line(one.install)) for one in facts if not one.installed and one.install]
    if missing:
        rows += ["", "not installed:", *table(missing)]
    rows += ["", *([_OTHERS] if columns is None else wrap(_OTHERS, columns, len(_OTHERS)))]
    return "".join(f"{row}\n" for row in rows)


def _agent_cells(one: AgentFacts) -> tuple[str, ...]:
    ways = [way for way in one.ways if way.is_there] or list(one.ways)
    return (
        one_line(one.name),
        (one_line(one.version) or "unknown") if one.installed else "-",
        "+".join(way.by for way in ways),
        *(_ability(one, name) for name in _ABILITIES),
        one.origin,
    )


def _ability(one: AgentFacts, name: str) -> str:
    """Return whether the agent can do it when driven in the usual way, else the way in which it can."""
    first, *others = one.ways
    if getattr(first.can, name):
        return "yes"
    return next((way.by for way in others if getattr(way.can, name)), "no")


_MARKS = {"good": "✓", "bad": "✗", "note": "·"}


def diagnosis_text(diagnosis: Diagnosis, columns: int | None = None) -> str:
    """Return a line for each check, with the command that repairs it, and the result."""
    return Layout(columns).text(_diagnosis_lines(diagnosis))


def diagnosis_value(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the same as a JSON value."""
    used = diagnosis.used.model_dump(mode="json") if diagnosis.used else None
    checks = [asdict(check) for check in diagnosis.checks]
    return {"agent": diagnosis.agent, "usable": diagnosis.usable, "checks": checks, "usage": used}


def check_lines(checks: Sequence[Check]) -> Iterator[Line]:
    """Yield a line for each check, and the command that repairs it."""
    for check in checks:
        yield Fact(check.name, f"{_MARKS[check.state]} {check.message}")
        yield from (Fact("", f"  {line}", whole=True) for line in check.hint.splitlines())


def _diagnosis_lines(diagnosis: Diagnosis) -> Iterator[Line]:
    yield Fact("agent", diagnosis.agent)
    yield from check_lines(diagnosis.checks)
    if diagnosis.used is not None:
        yield Fact("used", " · ".join(figures.spent(diagnosis.used)))
    problems = figures.count(sum(check.state == "bad" for check in diagnosis.checks), "problem")
    yield Fact("", f"{diagnosis.agent} {'can be used' if diagnosis.usable else f'cannot be used: {problems} found'}")


_MEMORY_HEADINGS = ("ID", "KIND", "OWNER", "SOURCE", "SENSITIVITY", "EXPIRES", "TEXT")
_MIN_TEXT = 20


def memory_text(items: Sequence[MemoryItem], *, now: datetime, columns: int | None = None) -> str:
    """Return a row for each item, oldest first; empty for none. `columns` is the width of a terminal."""
    if not items:
        return ""
    rows = table([_MEMORY_HEADINGS, *(_memory_cells(item, now) for item in items)], columns, _MIN_TEXT)
    return "".join(f"{row}\n" for row in rows)


def promoted_text(item: MemoryItem) -> str:
    """Return what was kept, and for whom."""
    until = f" until {item.expires_at[:10]}" if item.expires_at else ""
    corrected = f", in place of {item.replaces}" if item.replaces else ""
    return (
        f'{item.memory_id}  {item.kind} from {item.source_ref} of run {item.run_id}, for runs of "{one_line(item.owner)}"'
        f"{until}{corrected}\n{one_line(item.text)}\n"
    )


def forgotten_text(items: Sequence[MemoryItem]) -> str:
    """Return what was removed."""
    return "".join(f"forgotten  {item.memory_id}  {one_line(item.text)}\n" for item in items)


def _memory_cells(item: MemoryItem, now: datetime) -> tuple[str, ...]:
    return (
        item.memory_id,
        item.kind,
        one_line(item.owner),
        f"{item.source_ref} of {one_line(item.run_id)}",
        item.sensitivity,
        _expiry(item, now),
        one_line(item.text),
    )


def _expiry(item: MemoryItem, now: datetime) -> str:
    if item.expires_at is None:
        return "never"
    return "expired" if item.is_expired(now) else item.expires_at[:10]


_ACTION = 120


def waits_for(approvals: Approvals, risk: RiskClass) -> str:
    """Return what will wait for a person in a run, for its header; empty if nothing will."""
    kinds = list(approvals.require) + [f'"{pattern}"' for pattern in approvals.commands]
    if risk == "critical":
        kinds = ["complete", "every command and write"]
    elif risk == "high" and "complete" not in kinds:
        kinds = ["complete", *kinds]
    if not kinds:
        return ""
    within = f" · within {figures.elapsed(approvals.expires)}" if approvals.expires is not None else ""
    return f"a person decides on {', '.join(kinds)}{within}"


def waiting_facts(summary: Summary) -> Iterator[Fact]:
    """Yield the approvals that wait and the open questions; `next_steps` has the commands."""
    for identifier, kind, action in pending(summary):
        yield Fact(
            "waits", f"{identifier} {action if action.startswith(f'{kind}: ') else f'{kind}: {action}'}", tone="warn"
        )
        if summary.status == RUNNING:
            yield Fact("", "Answer at the terminal in which the run was started.")
    yield from (Fact("question", question, tone="warn") for question in summary.texts("open_questions"))


def waiting_line(summary: Summary) -> str:
    """Return a line for a list of runs with the command that shows what waits; empty if nothing does."""
    run = one_line(summary.text("run_id"))
    if summary.status == RUNNING:
        return ""
    if pending(summary):
        return f"{run} waits for your approval: goal status {run}"
    if summary.text("stop_reason") == "question_open" and summary.texts("open_questions"):
        return f'{run} asks: {cut(one_line(summary.texts("open_questions")[0]), _ACTION)}  goal answer {run} "..."'
    return ""


def pending(summary: Summary) -> list[tuple[str, str, str]]:
    """Return id, kind and action of each approval that waits."""
    return [
        (str(one.get("id", "?")), str(one.get("kind", "?")), cut(one_line(str(one.get("action", ""))), _ACTION))
        for one in summary.tables("approvals")
    ]


_HEADINGS = ("RUN", "STATUS", "ROUNDS", "SCORE", "TOKENS", "COST", "STARTED", "GOAL")
UNKNOWN = "unknown"
"""Shown if the usage is unknown; a dash: nothing was used."""
_MIN_GOAL = 16
"""Columns of the goal below which other columns are left out."""
_NARROWEST = 8
"""Columns that the goal always has."""
_DISPENSABLE = ("SCORE", "COST", "TOKENS", "ROUNDS")
"""Columns that are left out on a narrow terminal, in this order; `goal status` shows them."""
_LABEL_ROWS = 4
_WAITING = 5
"""Waiting runs that are listed below the table."""


def listing_text(summaries: Sequence[Mapping[str, Any]], *, now: datetime, columns: int | None = None) -> str:
    """Return a row for each run, in the order given; empty for none. `columns` is the width of a terminal.

    On a terminal, goals are cut to the width, columns are left out if that is not enough, and labels have a row of
    their own.
    """
    if not summaries:
        return ""
    shown = [Summary(summary) for summary in summaries]
    cells: list[tuple[str, ...]] = [_HEADINGS, *(_cells(summary, now, columns is None) for summary in shown)]
    for name in _DISPENSABLE:
        if columns is None or table_room(cells, columns) >= _MIN_GOAL:
            break
        place = cells[0].index(name)
        cells = [(*row[:place], *row[place + 1 :]) for row in cells]
    heading, *rows = table(cells, columns, _NARROWEST)
    lines = [heading]
    for row, summary in zip(rows, shown, strict=True):
        lines.append(row)
        if columns is not None and (names := label_names(summary)):
            lines += [f"  {part}" for part in wrap(f"labels: {names}", columns - 2, _LABEL_ROWS)]
    waiting = [line for line in map(waiting_line, shown) if line]
    more = [f"and {len(waiting) - _WAITING} more runs wait"] if len(waiting) > _WAITING else []
    return "".join(f"{line}\n" for line in (*lines, *([""] if waiting else []), *waiting[:_WAITING], *more))


def _cells(summary: Summary, now: datetime, labelled: bool) -> tuple[str, ...]:
    score, limit = summary.number("score"), summary.number("max_iterations")
    rounds, names = summary.integer("iterations"), label_names(summary)
    return (
        one_line(summary.text("run_id")),
        one_line(summary.status),
        f"{rounds}/{int(limit)}" if limit is not None else str(rounds),
        figures.score(score) if score is not None else "-",
        _tokens(summary),
        _short(summary.cost) if summary.has_spent else "-",
        figures.age(summary.text("started_at"), now) or "-",
        one_line((f"[{names}] " if labelled and names else "") + summary.text("objective")),
    )


def _tokens(summary: Summary) -> str:
    """ "41,210", or a lower bound as ">= 800"."""
    if not summary.has_spent:
        return "-"
    tokens = summary.tokens
    return UNKNOWN if tokens is None else f"{'>= ' if summary.uncounted else ''}{tokens:,}"


def _short(cost: str) -> str:
    return UNKNOWN if cost == figures.UNKNOWN_COST else cost.replace("at least ", ">= ")
