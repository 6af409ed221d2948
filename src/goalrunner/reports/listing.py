"""`goal list` as a table, and what a run waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from goalrunner.reports import figures
from goalrunner.reports.line import Fact
from goalrunner.reports.summary import RUNNING, Summary
from goalrunner.reports.text import cut, one_line, table, table_room, wrap

if TYPE_CHECKING:
    from goalrunner.core.events import RiskClass
    from goalrunner.core.goal import Approvals


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
        if columns is not None and (names := _label_names(summary)):
            lines += [f"  {part}" for part in wrap(f"labels: {names}", columns - 2, _LABEL_ROWS)]
    waiting = [line for line in map(waiting_line, shown) if line]
    more = [f"and {len(waiting) - _WAITING} more runs wait"] if len(waiting) > _WAITING else []
    return "".join(f"{line}\n" for line in (*lines, *([""] if waiting else []), *waiting[:_WAITING], *more))


def _cells(summary: Summary, now: datetime, labelled: bool) -> tuple[str, ...]:
    score, limit = summary.number("score"), summary.number("max_iterations")
    rounds, names = summary.integer("iterations"), _label_names(summary)
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


def _label_names(summary: Summary) -> str:
    """Return the labels of a run without their paths."""
    return one_line(", ".join(dict.fromkeys(label.partition(":")[0] for label in summary.texts("labels"))))


def _tokens(summary: Summary) -> str:
    """ "41,210", or a lower bound as ">= 800"."""
    if not summary.has_spent:
        return "-"
    tokens = summary.tokens
    return UNKNOWN if tokens is None else f"{'>= ' if summary.uncounted else ''}{tokens:,}"


def _short(cost: str) -> str:
    return UNKNOWN if cost == figures.UNKNOWN_COST else cost.replace("at least ", ">= ")
