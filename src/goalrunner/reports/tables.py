"""Agents, diagnoses, memory and resolved goals as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goalrunner.core.goal import Goal, ValidatorSpec
from goalrunner.records.memory import MemoryItem
from goalrunner.reports import figures
from goalrunner.reports.header import recorded_lines, unlimited_line
from goalrunner.reports.line import Fact, Layout, Line
from goalrunner.reports.text import cut, home_path, one_line, table, wrap

if TYPE_CHECKING:
    from goalrunner.app.agents import AgentFacts
    from goalrunner.app.doctor import Diagnosis


_HEADINGS = ("AGENT", "VERSION", "DRIVEN BY", "RESUME", "USAGE", "COST", "CANCEL", "ASKS", "SANDBOX", "FROM")
_ABILITIES = ("resume", "usage", "cost", "cancel", "permission", "sandbox")
_OTHERS = 'Any other program can be an agent: [agent] use = "command" or "acp".'


def agents_text(facts: Sequence[AgentFacts], columns: int | None = None) -> str:
    """Return a row for each agent, then how to install missing ones. `columns` is the width of a terminal.

    The table is cut to the width, commands are not. The column FROM is left out if all agents are built in.
    """
    cells = [_HEADINGS, *(_cells(one) for one in facts)]
    if all(one.origin == "built in" for one in facts):
        cells = [row[:-1] for row in cells]
    rows = [row if columns is None else cut(row, columns) for row in table(cells)]
    missing = [(one.name, one_line(one.install)) for one in facts if not one.installed and one.install]
    if missing:
        rows += ["", "not installed:", *table(missing)]
    rows += ["", *([_OTHERS] if columns is None else wrap(_OTHERS, columns, len(_OTHERS)))]
    return "".join(f"{row}\n" for row in rows)


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
    """Return whether the agent can do it when driven in the usual way, else the way in which it can."""
    first, *others = one.ways
    if getattr(first.can, name):
        return "yes"
    return next((way.by for way in others if getattr(way.can, name)), "no")


_MARKS = {"good": "✓", "bad": "✗", "note": "·"}


def diagnosis_text(diagnosis: Diagnosis, columns: int | None = None) -> str:
    """Return a line for each check, with the command that repairs it, and the result."""
    return Layout(columns).text(_lines(diagnosis))


def diagnosis_value(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the same as a JSON value."""
    used = diagnosis.used.model_dump(mode="json") if diagnosis.used else None
    checks = [asdict(check) for check in diagnosis.checks]
    return {"agent": diagnosis.agent, "usable": diagnosis.usable, "checks": checks, "usage": used}


def _lines(diagnosis: Diagnosis) -> Iterator[Line]:
    yield Fact("agent", diagnosis.agent)
    for check in diagnosis.checks:
        yield Fact(check.name, f"{_MARKS[check.state]} {check.message}")
        yield from (Fact("", f"  {line}", whole=True) for line in check.hint.splitlines())
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
    return Layout(columns).text(_resolved_lines(goal, agent, place, checked))


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
    return f"{command} · {limit}" if spec.name in ("", command) else f"{spec.name}: {command} · {limit}"
