"""All runs as a table, from their summaries. Owns the picture of `goal list`; opens no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from goalrunner.reports import figures
from goalrunner.reports.summary import Summary
from goalrunner.reports.terminal_text import cut, one_line, pad, width
from goalrunner.reports.waiting import waiting_line

_HEADINGS = ("RUN", "STATUS", "ROUNDS", "SCORE", "TOKENS", "COST", "STARTED", "GOAL")
UNKNOWN = "unknown"
"""Stands where nothing is known of what was used; a dash: nothing was used."""
_GAP = "  "
_LEAST_GOAL = 16
"""Columns of a goal, for the sake of which other columns are left out."""
_NARROWEST = 8
"""Columns that a goal has in any case."""
_DISPENSABLE = ("SCORE", "COST", "TOKENS", "ROUNDS")
"""Columns that a narrow terminal is spared, the first one first: `goal status` has them."""
_WAITING = 5
"""Runs that are said to wait for a person, below the table."""


def listing_text(summaries: Sequence[Mapping[str, Any]], *, now: datetime, columns: int | None = None) -> str:
    """One row a run, in the order given; empty for none. `columns` is a terminal's width: goals are cut to it.

    Where that is not enough, columns are left out.
    """
    if not summaries:
        return ""
    table: list[tuple[str, ...]] = [_HEADINGS, *(_cells(Summary(summary), now) for summary in summaries)]
    for name in _DISPENSABLE:
        if columns is None or _room(table, columns) >= _LEAST_GOAL:
            break
        place = table[0].index(name)
        table = [(*cells[:place], *cells[place + 1 :]) for cells in table]
    widths = _widths(table)
    room = widths[-1] if columns is None else max(_room(table, columns), _NARROWEST)
    rows = [_row(cells, widths, room) for cells in table]
    waiting = [line for line in (waiting_line(Summary(summary)) for summary in summaries) if line]
    more = [f"and {len(waiting) - _WAITING} more wait"] if len(waiting) > _WAITING else []
    said = ["", *waiting[:_WAITING], *more] if waiting else []
    return "".join(f"{line}\n" for line in (*rows, *said))


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(width, column)) for column in zip(*table, strict=True)]


def _room(table: Sequence[Sequence[str]], columns: int) -> int:
    """What is left of so many columns for the goals, which stand last."""
    *others, _ = _widths(table)
    return columns - sum(others) - len(_GAP) * len(others)


def _cells(summary: Summary, now: datetime) -> tuple[str, ...]:
    score, limit = summary.number("score"), summary.number("max_iterations")
    rounds = summary.integer("iterations")
    return (
        one_line(summary.text("run_id")),
        one_line(summary.status),
        f"{rounds}/{int(limit)}" if limit is not None else str(rounds),
        figures.score(score) if score is not None else "-",
        _tokens(summary),
        _short(summary.cost) if summary.has_spent else "-",
        figures.age(summary.text("started_at"), now) or "-",
        _labelled(summary),
    )


def _labelled(summary: Summary) -> str:
    """Return the goal, after the labels of its run without their paths."""
    names = dict.fromkeys(label.partition(":")[0] for label in summary.texts("labels"))
    head = f"[{', '.join(names)}] " if names else ""
    return one_line(head + summary.text("objective"))


def _tokens(summary: Summary) -> str:
    """ "41,210", or a lower bound as ">= 800"."""
    if not summary.has_spent:
        return "-"
    tokens = summary.tokens
    return UNKNOWN if tokens is None else f"{'>= ' if summary.uncounted else ''}{tokens:,}"


def _short(cost: str) -> str:
    return UNKNOWN if cost == figures.UNKNOWN_COST else cost.replace("at least ", ">= ")


def _row(cells: Sequence[str], widths: Sequence[int], room: int) -> str:
    padded = [pad(cell, columns) for cell, columns in zip(cells[:-1], widths, strict=False)]
    return _GAP.join([*padded, cut(cells[-1], room)]).rstrip()
