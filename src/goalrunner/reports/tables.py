"""Agents, diagnoses, memory and resolved goals as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goalrunner.core.goal import Goal, ValidatorSpec
from goalrunner.records.memory import MemoryItem
from goalrunner.reports import figures
from goalrunner.reports.figures import cut, home_path, one_line, pad, width, wrap
from goalrunner.reports.header import recorded_lines, unlimited_line
from goalrunner.reports.line import Fact, Layout, Line, plain

if TYPE_CHECKING:
    from goalrunner.app.agents import AgentFacts
    from goalrunner.app.doctor import Diagnosis


_HEADINGS = ("AGENT", "VERSION", "DRIVEN BY", "RESUME", "USAGE", "COST", "CANCEL", "ASKS", "SANDBOX", "FROM")
_ABILITIES = ("resume", "usage", "cost", "cancel", "permission", "sandbox")
_GAP = "  "
_OTHERS = 'Any other program can be an agent: [agent] use = "command" or "acp".'


def agents_text(facts: Sequence[AgentFacts], columns: int | None = None) -> str:
    """One row an agent, in the order given, then how to install those that are not there. `columns`: a terminal's width;
    the table is cut to it, and what is to be typed is not.

    It is 80 columns wide as long as all of them are built in; the version of one that is not installed is a dash.
    """
    table = [_HEADINGS, *(_cells(one) for one in facts)]
    if all(one.origin == "built in" for one in facts):
        table = [cells[:-1] for cells in table]
    widths = [max(map(width, column)) for column in zip(*table, strict=True)]
    rows = [_GAP.join(pad(cell, wide) for cell, wide in zip(cells, widths, strict=True)).rstrip() for cells in table]
    missing = [one for one in facts if not one.installed and one.install]
    said: list[str] = []
    if missing:
        names = max(width(one.name) for one in missing)
        said = [f"{pad(one.name, names)}{_GAP}{one_line(one.install)}" for one in missing]
    rows = rows if columns is None else [cut(row, columns) for row in rows]
    more = ["", "not installed:", *said] if said else []
    more += ["", *([_OTHERS] if columns is None else wrap(_OTHERS, columns, len(_OTHERS)))]
    return "".join(f"{row}\n" for row in (*rows, *more))


def _cells(one: AgentFacts) -> tuple[str, ...]:
    ways = [way for way in one.ways if way.is_there] or list(one.ways)
    return (
        one_line(one.name),
        (one_line(one.version) or "unknown") if one.installed else "-",
        "+".join(way.by for way in ways),
        *(_ability(one, name) for name in _ABILITIES),
        one.origin,
    )


def _ability(one: AgentFacts, name: str) -> str:
    """In the usual way, else in which other one."""
    first, *others = one.ways
    if getattr(first.can, name):
        return "yes"
    return next((way.by for way in others if getattr(way.can, name)), "no")


_MARKS = {"good": "✓", "bad": "✗", "note": "·"}


def diagnosis_text(diagnosis: Diagnosis, columns: int | None = None) -> str:
    """Return a line for each check, with the command that repairs it, and the result."""
    layout = Layout(columns)
    return "".join(plain(layout.rows(line)) for line in _lines(diagnosis))


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the same as a JSON value."""
    checks = [
        {"name": check.name, "state": check.state, "said": check.said, "remedy": check.remedy}
        for check in diagnosis.checks
    ]
    return {"agent": diagnosis.agent, "usable": diagnosis.usable, "checks": checks}


def _lines(diagnosis: Diagnosis) -> Iterator[Line]:
    yield Fact("agent", diagnosis.agent)
    for check in diagnosis.checks:
        yield Fact(check.name, f"{_MARKS[check.state]} {check.said}")
        if check.remedy:
            yield Fact("", f"  {check.remedy}", whole=True)
    bad = sum(check.state == "bad" for check in diagnosis.checks)
    if not bad:
        yield Fact("", f"{diagnosis.agent} can be used")
    else:
        yield Fact("", f"{diagnosis.agent} cannot be used: {bad} problem{'s' if bad > 1 else ''} found")


_REMEMBERED_HEADINGS = ("ID", "KIND", "OWNER", "SOURCE", "SENSITIVITY", "EXPIRES", "TEXT")
_REMEMBERED_GAP = "  "
_LEAST_TEXT = 20


def memory_text(items: Sequence[MemoryItem], *, now: datetime, columns: int | None = None) -> str:
    """One row an item, oldest first; empty for none. `columns` is a terminal's width: texts are cut to it."""
    if not items:
        return ""
    table = [_REMEMBERED_HEADINGS, *(_remembered_cells(item, now) for item in items)]
    widths = [max(map(width, column)) for column in zip(*table, strict=True)]
    room = columns - sum(widths[:-1]) - len(_REMEMBERED_GAP) * (len(widths) - 1) if columns is not None else widths[-1]
    return "".join(_row(cells, widths, max(room, _LEAST_TEXT)) + "\n" for cells in table)


def promoted_text(item: MemoryItem) -> str:
    """What was kept, and for whom."""
    until = f" until {item.expires_at[:10]}" if item.expires_at else ""
    corrected = f", in place of {item.replaces}" if item.replaces else ""
    return (
        f'{item.memory_id}  {item.kind} from {item.source_ref} of run {item.run_id}, for runs of "{one_line(item.owner)}"'
        f"{until}{corrected}\n{one_line(item.text)}\n"
    )


def forgotten_text(items: Sequence[MemoryItem]) -> str:
    """What is gone."""
    return "".join(f"forgotten  {item.memory_id}  {one_line(item.text)}\n" for item in items)


def _remembered_cells(item: MemoryItem, now: datetime) -> tuple[str, ...]:
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


def _row(cells: Sequence[str], widths: Sequence[int], room: int) -> str:
    *others, text = cells
    padded = [pad(cell, size) for cell, size in zip(others, widths, strict=False)]
    return _REMEMBERED_GAP.join([*padded, cut(text, room)]).rstrip()


def resolved_text(
    goal: Goal,
    agent: str = "",
    *,
    place: str = "",
    checked: Sequence[tuple[str, str]] = (),
    columns: int | None = None,
) -> str:
    """Return objective, workspace, models, limits and checks.

    `agent` is an external one with its command, `place` more about the workspace: "git, clean". `checked` are labels and
    texts about the check environment.
    """
    layout = Layout(columns)
    return "".join(plain(layout.rows(line)) for line in _resolved_lines(goal, agent, place, checked))


def _resolved_lines(goal: Goal, agent: str, place: str, checked: Sequence[tuple[str, str]]) -> Iterator[Line]:
    yield Fact("goal", goal.objective)
    yield from _list("criteria", goal.success_criteria)
    yield from _list("keeps", goal.constraints)
    yield Fact("workspace", " · ".join(part for part in (home_path(goal.workspace.path), place) if part))
    judge = goal.judge.model
    models = {"agent": goal.agent.model, "judge": goal.agent.model if judge == "agent" else judge}
    yield Fact("agent", agent or models["agent"], whole=True)
    yield Fact("judge", _judge(goal, models["judge"]), whole=True)
    budget = goal.budget
    yield Fact("limits", figures.limits(goal.max_iterations, goal.timeout, budget.tokens, budget.cost_usd))
    yield from _list("checks", [_validator(spec) for spec in goal.validators])
    yield from (Fact(label, text) for label, text in checked)
    if goal.unlimited:
        yield unlimited_line()
    yield from recorded_lines(models)
    yield Fact("dry run", "Nothing was run or written.")


def _list(label: str, texts: tuple[str, ...] | list[str]) -> Iterator[Fact]:
    yield from (Fact(label if index == 0 else "", text, whole=True) for index, text in enumerate(texts))


def _judge(goal: Goal, model: str) -> str:
    if not goal.has_judge:
        return "none; the validators decide"
    minimum = goal.judge.minimum_score
    return f"{model} · at least {figures.score(minimum)}" if minimum else model


def _validator(spec: ValidatorSpec) -> str:
    limit = figures.span(spec.timeout) if spec.timeout is not None else "no timeout"
    command = spec.run or f"python {spec.python}"
    return f"{spec.name}: {command} · {limit}" if spec.name else f"{command} · {limit}"
