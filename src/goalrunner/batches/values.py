"""A batch as JSON: its events with figures, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goalrunner.batches.history import BatchEvent
from goalrunner.batches.rows import BatchMoment, BatchRow, batch_rows, batch_totals
from goalrunner.core.run_summary import RunSummary


def event_value(event: BatchEvent, row: BatchRow | None) -> dict[str, Any]:
    """Return an event with the figures of its entry, if it is about one."""
    value = event.model_dump(mode="json")
    if row is not None:
        value["entry"] = row_value(row)
    return value


def wait_value(row: BatchRow, moment: BatchMoment) -> dict[str, Any]:
    """Return the line about a run that begins to wait, which is no event of the log."""
    return {
        "type": "entry_waits",
        "at": moment.now.isoformat(),
        "key": row.entry.entry.key,
        "entry": row_value(row),
    }


def row_value(row: BatchRow) -> dict[str, Any]:
    """Return an entry: its state, and the figures of its run."""
    entry, summary = row.entry, row.summary
    return {
        "key": entry.entry.key,
        "name": row.name,
        "state": row.word,
        "remark": row.remark,
        "run_id": row.run_id,
        "goal_file": entry.entry.source,
        "objective": entry.entry.objective,
        "workspace": entry.entry.workspace,
        "stop_reason": summary.stop_reason,
        "rounds": row.rounds,
        "max_iterations": summary.max_iterations,
        "score": summary.score,
        "missing": summary.missing,
        "labels": list(summary.labels),
        "duration": round(row.seconds, 3),
        "starts": entry.starts,
        "commit": entry.commit,
        "left_out": entry.left_out,
        **_spent(summary),
    }


def _spent(summary: RunSummary) -> dict[str, Any]:
    return {
        "tokens": summary.tokens,
        "uncounted_calls": summary.uncounted_calls,
        "cost_usd": summary.cost_usd,
        "known_cost_usd": summary.known_cost_usd,
    }


def result_value(moment: BatchMoment) -> dict[str, Any]:
    """Return the whole batch, with all its entries."""
    state = moment.state
    rows = batch_rows(moment)
    return {
        "type": "batch_result",
        **summary_value(moment, rows),
        "limits": state.limits.model_dump(mode="json"),
        "entries": [row_value(row) for row in rows],
    }


def summary_value(moment: BatchMoment, rows: Sequence[BatchRow]) -> dict[str, Any]:
    """Return the figures of a batch without its entries."""
    state = moment.state
    totals = batch_totals(rows)
    return {
        "batch_id": state.plan.batch_id,
        "kind": state.plan.kind,
        "status": moment.status,
        "exit_code": moment.exit_code,
        "goals": len(rows),
        "complete": state.complete,
        "needed": state.needed,
        "counts": dict(totals.counts),
        "stopped": state.stopped.reason if state.stopped else "",
        "branch": state.branch,
        "created_at": state.plan.created_at,
        "updated_at": state.updated_at,
        **_spent(totals.spent),
    }
