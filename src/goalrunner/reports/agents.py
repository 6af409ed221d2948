"""The text of `goal agents`: the agents that a goal may name, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goalrunner.reports.terminal_text import cut, one_line, pad, width, wrap

if TYPE_CHECKING:
    from goalrunner.survey import AgentFacts

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
