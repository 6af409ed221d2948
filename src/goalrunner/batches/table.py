"""The rows of a batch as a table that fits a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from goalrunner.batches.rows import (
    ACTIVE,
    BatchMoment,
    BatchRow,
    BatchTotals,
    batch_totals,
)
from goalrunner.core.waiting import seconds_between
from goalrunner.reports import figures
from goalrunner.reports.layout import Fact, Tone, facts
from goalrunner.reports.run_table import cost_cell
from goalrunner.reports.terminal_text import cut, printable_line, table, table_room

TONES: dict[str, Tone] = {
    "complete": "good",
    "capped": "bad",
    "blocked": "bad",
    "failed": "bad",
    "lost": "bad",
    "waiting": "warn",
    "stopped": "warn",
    "cancelled": "warn",
    "skipped": "warn",
    "running": "bold",
    "pending": "dim",
}
"""How the word of a row is meant."""

# Columns for the remark, below which a table has fewer other columns.
_MIN_REMARK = 22
# The remark always has these.
_NARROWEST_REMARK = 8
_LONGEST_NAME, _SHORT_NAME = 28, 16
# Columns that are left out on a narrow terminal, the first one first. The lines at the
# end of a batch have the ids of runs, `goal status` has the times.
_LEFT_OUT = ("TIME", "RUN")
# Characters of a run's id that name it.
_SHORT_ID = 4
# Commands for decisions below a table; `goal list` counts all runs that wait.
_MOST_DECISIONS = 3
# Not complete ones come before the many complete ones.
_RANKS: dict[str, int] = {"pending": 2, "complete": 3}


def table_lines(rows: Sequence[BatchRow], columns: int | None = None) -> list[str]:
    """Return a heading, and a line for each row; each begins with the row's word.

    `columns` is the width of a terminal: what is less important is left out there.
    """
    cells = list(map(_cells, rows))
    if columns is not None:
        _fit(cells, columns)
    return table(_with_heading(cells), columns, _NARROWEST_REMARK)


def _fit(cells: list[dict[str, str]], columns: int) -> None:
    """Leave out columns until there is room for the remarks; last, cut the names."""
    for heading in _LEFT_OUT:
        if table_room(_with_heading(cells), columns) >= _MIN_REMARK:
            return
        for row_cells in cells:
            del row_cells[heading]
    if table_room(_with_heading(cells), columns) < _MIN_REMARK:
        for row_cells in cells:
            row_cells["GOAL"] = cut(row_cells["GOAL"], _SHORT_NAME)


def _with_heading(cells: Sequence[dict[str, str]]) -> list[list[str]]:
    return [list(cells[0]), *(list(row.values()) for row in cells)]


def _cells(row: BatchRow) -> dict[str, str]:
    """Return the cells of a row by their headings."""
    summary = row.summary
    rounds = "-"
    if summary.run_id:
        rounds = str(row.rounds)
        if summary.max_iterations is not None:
            rounds += f"/{summary.max_iterations}"
    return {
        "STATE": row.word,
        "GOAL": cut(printable_line(row.name), _LONGEST_NAME),
        "RUN": row.run_id[:_SHORT_ID] or "-",
        "ROUND": rounds,
        "SCORE": "-" if summary.score is None else figures.score(summary.score),
        "COST": cost_cell(summary),
        "TIME": figures.elapsed(row.seconds) if summary.run_id else "-",
        "": printable_line(row.remark),
    }


def shown_rows(rows: Sequence[BatchRow], most: int) -> tuple[list[BatchRow], str]:
    """Return the rows for so many lines, and a line that counts the others.

    All rows have the order of the plan. Else, what runs comes first, then what is not
    complete.
    """
    if len(rows) <= most:
        return list(rows), ""
    ordered = sorted(rows, key=_rank)
    # One line is needed for the others.
    first_rows, others = ordered[: most - 1], ordered[most - 1 :]
    return first_rows, f"and {len(others):,} more: {counts_text(batch_totals(others))}"


def _rank(row: BatchRow) -> int:
    return 0 if row.word in ACTIVE else _RANKS.get(row.word, 1)


def counts_text(totals: BatchTotals) -> str:
    """Return the number of entries by word: "12 complete · 4 running"."""
    return " · ".join(f"{number:,} {word}" for word, number in totals.counts.items())


def total_facts(moment: BatchMoment, rows: Sequence[BatchRow]) -> list[Fact]:
    """Return the lines below a table.

    These are the number of entries by word, what is used of each limit, and the
    commands that decide what waits for a person.
    """
    totals = batch_totals(rows)
    goals = figures.count(len(rows), "run" if _is_group(moment) else "goal")
    return [
        Fact("total", f"{goals}: {counts_text(totals)}"),
        Fact("", " · ".join(_used(moment, totals))),
        *facts("for you", _decisions(rows)[:_MOST_DECISIONS], whole=True),
    ]


def _decisions(rows: Sequence[BatchRow]) -> list[str]:
    commands = []
    for row in rows:
        if row.waits_for_person:
            commands += [
                f"goal approve {row.run_id} {name}" for name in row.summary.waiting
            ]
            if row.summary.asks:
                commands.append(f'goal answer {row.run_id} "..."')
    return commands


def _is_group(moment: BatchMoment) -> bool:
    return moment.state.plan.kind == "group"


def _used(moment: BatchMoment, totals: BatchTotals) -> list[str]:
    """Return time, tokens and dollars, each with its limit, and the other limits."""
    state = moment.state
    end = moment.now.isoformat() if moment.is_driven else state.updated_at
    parts = [figures.elapsed(seconds_between(state.plan.created_at, end))]
    if totals.spent.has_spent:
        tokens, cost = figures.spent(totals.spent)
        # "cost unknown of $5.00" would say nothing.
        if state.limits.tokens and tokens != figures.UNKNOWN_TOKENS:
            tokens += f" of {state.limits.tokens:,}"
        if state.limits.cost_usd and cost != figures.UNKNOWN_COST:
            cost += f" of {figures.dollars(state.limits.cost_usd)}"
        parts += [tokens, cost]
    if state.limits.until is not None and moment.is_driven:
        parts.append(f"until {figures.time_ahead(state.limits.until, moment.now)}")
    return parts
