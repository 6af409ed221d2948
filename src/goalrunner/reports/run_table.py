"""Runs as a table: `goal list`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from goalrunner.core.run_summary import RUNNING, RunSummary
from goalrunner.reports import figures
from goalrunner.reports.short_forms import home_path
from goalrunner.reports.status import status_text
from goalrunner.reports.terminal_text import (
    join_nonempty,
    lines_text,
    printable_line,
    table,
    table_room,
)

if TYPE_CHECKING:
    from goalrunner.app.pruning import OldRun

# With fewer columns for the goal, the figures are left out.
_MIN_GOAL_COLUMNS = 16
# The goal always has these.
_NARROWEST_GOAL = 8
# Waiting runs that are listed below the table.
_WAITING = 5
# Shown if the usage is unknown. A dash says that nothing was used.
_UNKNOWN = "unknown"
_NO_CELLS: Mapping[str, str] = MappingProxyType({})


def listing_text(
    summaries: Sequence[RunSummary],
    now: datetime,
    columns: int | None = None,
    *,
    with_workspaces: bool = False,
    batches: Mapping[str, str] = _NO_CELLS,
    copies: Mapping[str, str] = _NO_CELLS,
) -> str:
    """Return a row for each run, in the given order; empty for none.

    `columns` is the width of a terminal: goals are cut to it, and figures are left out
    if that is not enough. With workspaces, their paths have a column, and so have the
    names of batches and the sizes of copies (by run id) if a run has one.
    """
    if not summaries:
        return ""
    rows = [
        _run_row(summary, now, with_workspace=with_workspaces) for summary in summaries
    ]
    for heading, cells_of_runs in (("BATCH", batches), ("COPY", copies)):
        texts = [cells_of_runs.get(summary.run_id, "-") for summary in summaries]
        if set(texts) != {"-"}:
            for row, text in zip(rows, texts, strict=True):
                goal = row.pop("GOAL")
                row.update({heading: printable_line(text), "GOAL": goal})
    cells = [list(rows[0]), *(list(row.values()) for row in rows)]
    if columns is not None and table_room(cells, columns) < _MIN_GOAL_COLUMNS:
        # `goal status` shows the figures.
        cells = [[row[0], row[1], row[-1]] for row in cells]
    lines = table(cells, columns, _NARROWEST_GOAL)
    waiting = [waiting_line(summary, now) for summary in summaries]
    waiting = [line for line in waiting if line]
    if waiting:
        lines += ["", *waiting[:_WAITING]]
    if len(waiting) > _WAITING:
        lines.append(f"and {len(waiting) - _WAITING} more runs wait")
    return lines_text(lines)


def _run_row(
    summary: RunSummary, now: datetime, *, with_workspace: bool
) -> dict[str, str]:
    """Return the cells of a run by their headings."""
    status = printable_line(summary.status)
    rounds = str(summary.checked_rounds)
    if summary.max_iterations is not None:
        rounds += f"/{summary.max_iterations}"
    row = {
        "RUN": printable_line(summary.run_id),
        "STATUS": "waiting" if _is_waiting(summary) else status,
        "ROUNDS": rounds,
        "SCORE": "-" if summary.score is None else figures.score(summary.score),
        "TOKENS": _tokens_cell(summary),
        "COST": cost_cell(summary),
        "STARTED": figures.age(summary.started_at, now) or "-",
    }
    if with_workspace:
        row["WORKSPACE"] = home_path(summary.workspace) or "-"
    labels = _label_names(summary)
    # Labels come first, because the end of a goal is cut on a narrow terminal.
    goal = f"[{labels}] {summary.objective}" if labels else summary.objective
    row["GOAL"] = printable_line(goal)
    return row


def _tokens_cell(summary: RunSummary) -> str:
    if not summary.has_spent:
        return "-"
    if summary.tokens is None:
        return _UNKNOWN
    return f"{'>= ' if summary.uncounted_calls else ''}{summary.tokens:,}"


def cost_cell(summary: RunSummary) -> str:
    if not summary.has_spent:
        return "-"
    _, cost = figures.spent(summary)
    return cost.replace(figures.UNKNOWN_COST, _UNKNOWN).replace("at least ", ">= ")


def _label_names(summary: RunSummary) -> str:
    """Return the labels of a run without their paths."""
    names = dict.fromkeys(label.partition(":")[0] for label in summary.labels)
    return printable_line(", ".join(names))


def old_run_line(run: OldRun) -> str:
    """Return a line about a run that could be removed.

    It has the id, how the run ended, its workspace and its goal.
    """
    summary = RunSummary.read(run.summary)
    return join_nonempty(
        "  ",
        run.folder.run_id,
        run.why,
        home_path(summary.workspace),
        printable_line(summary.objective),
    )


def _waits_for_limit(summary: RunSummary) -> bool:
    """Return whether a run waits for a limit to reset; its process may be gone."""
    return bool(summary.waits_for) and summary.status == RUNNING


def _is_waiting(summary: RunSummary) -> bool:
    """Return whether a running run waits for a limit or a person."""
    asks_person = bool(summary.waiting) or summary.asks
    return summary.status == RUNNING and (bool(summary.waits_for) or asks_person)


def waiting_line(summary: RunSummary, now: datetime) -> str:
    """Return what a run in a list waits for; empty if it does not wait."""
    run_id = printable_line(summary.run_id)
    if _waits_for_limit(summary):
        return f"{run_id} {printable_line(status_text(summary, now))}"
    has_question = summary.stop_reason == "question_open" and summary.open_questions
    if summary.status == RUNNING and not (summary.waiting or summary.asks):
        return ""
    if summary.waiting or has_question:
        return f"{run_id} waits for you: goal status {run_id}"
    return ""
