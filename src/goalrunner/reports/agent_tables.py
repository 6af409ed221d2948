"""Agents as a table, and the diagnosis of one agent as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from goalrunner.reports import figures
from goalrunner.reports.layout import Fact, ReportLine
from goalrunner.reports.terminal_text import (
    cut,
    lines_text,
    printable_line,
    table,
    wrap,
)

if TYPE_CHECKING:
    from goalrunner.agents.facts import AgentFacts
    from goalrunner.app.agent_findings import Finding
    from goalrunner.app.doctor import Diagnosis

_HEADINGS = (
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
# Fields of an agent's abilities, in the order of their columns.
_ABILITIES = ("resume", "usage", "cost", "cancel", "permission", "sandbox")
_OTHERS = 'Any other program can be an agent: [agent] use = "command" or "acp".'
# Rows of a narrow terminal for this sentence.
_ROWS = 4
_MARKS = {"good": "✓", "bad": "✗", "note": "·"}


def agents_text(agents: Sequence[AgentFacts], columns: int | None = None) -> str:
    """Return a row for each agent, then how to install missing ones.

    `columns` is the width of a terminal. The table is cut to it, commands are not.
    """
    rows = [_HEADINGS, *map(_agent_cells, agents)]
    # The column FROM says nothing if all agents are built in.
    if all(agent.origin == "built in" for agent in agents):
        rows = [row[:-1] for row in rows]
    lines = table(rows)
    if columns is not None:
        lines = [cut(line, columns) for line in lines]
    missing = []
    for agent in agents:
        if agent.install and not agent.installed:
            missing.append((agent.name, printable_line(agent.install)))
    if missing:
        lines += ["", "not installed:", *table(missing)]
    lines += ["", *wrap(_OTHERS, columns or len(_OTHERS), _ROWS)]
    return lines_text(lines)


def _agent_cells(agent: AgentFacts) -> tuple[str, ...]:
    installed_ways = [way for way in agent.ways if way.is_installed]
    ways = "+".join(way.by for way in installed_ways or agent.ways)
    version = "-"
    if agent.installed:
        version = printable_line(agent.version) or "unknown"
    abilities = [_ability(agent, name) for name in _ABILITIES]
    return (printable_line(agent.name), version, ways, *abilities, agent.origin)


def _ability(agent: AgentFacts, name: str) -> str:
    """Return "yes" if an agent can do something when it is driven in the usual way.

    Otherwise return the way in which it can; "no" if there is none.
    """
    usual_way, *other_ways = agent.ways
    if getattr(usual_way.can, name):
        return "yes"
    for way in other_ways:
        if getattr(way.can, name):
            return way.by
    return "no"


def diagnosis_lines(diagnosis: Diagnosis) -> Iterator[ReportLine]:
    """Yield a line for each check, with the command that repairs it, and the result."""
    yield Fact("agent", diagnosis.agent)
    yield from check_lines(diagnosis.checks)
    if diagnosis.used is not None:
        yield Fact("used", " · ".join(figures.spent(diagnosis.used)))
    if diagnosis.usable:
        yield Fact("", f"{diagnosis.agent} can be used")
        return
    bad_checks = [check for check in diagnosis.checks if check.state == "bad"]
    problems = figures.count(len(bad_checks), "problem")
    yield Fact("", f"{diagnosis.agent} cannot be used: {problems} found")


def diagnosis_value(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as a JSON value."""
    used = diagnosis.used.model_dump(mode="json") if diagnosis.used else None
    return {
        "agent": diagnosis.agent,
        "usable": diagnosis.usable,
        "checks": [check.value() for check in diagnosis.checks],
        "usage": used,
    }


def check_lines(checks: Sequence[Finding]) -> Iterator[ReportLine]:
    """Yield a line for each check, and the command that repairs it."""
    for check in checks:
        yield Fact(check.name, f"{_MARKS[check.state]} {check.message}")
        for line in check.hint.splitlines():
            yield Fact("", f"  {line}", whole=True)
