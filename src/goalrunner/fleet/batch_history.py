"""A batch whose runs a fleet has: its rows in the database as the events of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from goalrunner.batches.history import (
    BatchEvent,
    BatchState,
    EntryEnded,
    EntrySkipped,
    EntryStarted,
    after,
    batch_state,
)
from goalrunner.batches.plan import BatchEntry, BatchLimits, BatchPlan
from goalrunner.batches.rows import BatchMoment
from goalrunner.core.errors import RunNotFound, quoted, some
from goalrunner.core.run_summary import RunSummary
from goalrunner.fleet import LEASE
from goalrunner.fleet.database import Connection
from goalrunner.fleet.listing import ABLE, HOLD

_TAKEN_OVER = "its worker gave no sign of life"
_ENTRIES = """\
SELECT run_id, name, objective, job ->> 'goal_file' AS goal_file, after, deadline,
    submitted_at
FROM goal_fleet_runs WHERE batch = %s ORDER BY submitted_at, run_id
"""
_PROGRESS = f"""\
{ABLE}SELECT run_id, state, status, token,
    coalesce(nullif(reason, ''), cancel_reason, '') AS reason,
    started_at, ended_at, {HOLD} AS hold
FROM goal_fleet_runs AS run WHERE batch = %(batch)s ORDER BY submitted_at, run_id
"""  # noqa: S608  both parts are constants
_SUMMARIES = """\
SELECT run_id, summary FROM goal_fleet_runs WHERE run_id = ANY (%s)
"""
# A whole name comes first: it may also be the beginning of another one.
_BATCHES = """\
SELECT batch FROM goal_fleet_runs WHERE batch <> '' AND starts_with(batch, %s)
GROUP BY batch ORDER BY length(batch), batch LIMIT 9
"""


def find_fleet_batch(connection: Connection, reference: str) -> str | None:
    """Return the name of a batch, or the only one that begins so; None without one.

    Raise RunNotFound if several begin so.
    """
    rows = connection.execute(_BATCHES, [reference]).fetchall()
    names = [str(row["batch"]) for row in rows]
    if not names:
        return None
    if len(names) > 1 and names[0] != reference:
        raise RunNotFound(
            f"{quoted(reference)} matches several batches of the fleet: {some(names)}",
            "type more of the name",
        )
    return names[0]


def fleet_plan(connection: Connection, name: str, at_least: int | None) -> BatchPlan:
    """Return the plan of a batch, as the rows of its runs have it."""
    rows = connection.execute(_ENTRIES, [name]).fetchall()
    keys = {row["run_id"]: str(number) for number, row in enumerate(rows, 1)}
    entries: list[BatchEntry] = []
    for row in rows:
        # A run may also come after one of another batch.
        before = [keys[run_id] for run_id in row["after"] if run_id in keys]
        entry = BatchEntry(
            key=keys[row["run_id"]],
            name=row["name"],
            source=row["goal_file"] or "",
            objective=row["objective"],
            workspace="",
            after=tuple(before),
        )
        entries.append(entry)
    deadlines = [row["deadline"] for row in rows if row["deadline"] is not None]
    until = _text(max(deadlines)) if deadlines else None
    return BatchPlan(
        batch_id=name,
        created_at=_text(rows[0]["submitted_at"] if rows else None),
        entries=tuple(entries),
        jobs=0,
        limits=BatchLimits(until=until),
        at_least=at_least,
    )


@dataclass(frozen=True)
class RunProgress:
    """How far a run of a batch is."""

    run_id: str
    state: str
    status: str
    token: int
    reason: str
    started_at: datetime | None
    ended_at: datetime | None
    hold: str
    """Why it does not begin; empty: it has begun, or the reason is not known."""


def batch_progress(connection: Connection, name: str) -> list[RunProgress]:
    """Return how far each run of a batch is, in the order of its plan."""
    parameters = {"batch": name, "lease": LEASE}
    rows = connection.execute(_PROGRESS, parameters).fetchall()
    return [RunProgress(**row) for row in rows]


def run_summaries_of(
    connection: Connection, run_ids: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the figures of these runs, by id."""
    if not run_ids:
        return {}
    rows = connection.execute(_SUMMARIES, [list(run_ids)]).fetchall()
    return {row["run_id"]: row["summary"] for row in rows}


class FleetHistory:
    """What has happened to a batch, as seen in its rows again and again."""

    def __init__(self, plan: BatchPlan) -> None:
        self.state: BatchState = batch_state(plan, ())
        self.holds: dict[str, str] = {}
        """By key: why a run does not begin."""
        self.summaries: dict[str, RunSummary] = {}
        self._earlier_rows: dict[str, RunProgress] = {}

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens, unless a person queues a run again."""
        return all(entry.is_over for entry in self.state.entries.values())

    def moment(self) -> BatchMoment:
        """Return the batch as it was at the last look."""
        return BatchMoment(
            self.state,
            self.summaries,
            is_driven=True,
            now=datetime.now(UTC),
            in_fleet=True,
            holds=self.holds,
        )

    def look(
        self, connection: Connection, name: str
    ) -> list[tuple[BatchEvent, BatchState]]:
        """Read the rows; return what has happened since the last look.

        Each event has the state after it.
        """
        rows = batch_progress(connection, name)
        changed = [row.run_id for row in rows if self._has_figures(row)]
        for run_id, values in run_summaries_of(connection, changed).items():
            # A run that has not begun has none.
            if values:
                self.summaries[run_id] = RunSummary.read(values)
        happened: list[tuple[BatchEvent, BatchState]] = []
        # Goals that are submitted later under the same name are not of this plan.
        for key, row in zip(self.state.entries, rows, strict=False):
            for event in progress_events(key, self._earlier_rows.get(row.run_id), row):
                self.state = after(self.state, event)
                happened.append((event, self.state))
            self._earlier_rows[row.run_id] = row
            self.holds[key] = row.hold
        return happened

    def _has_figures(self, row: RunProgress) -> bool:
        """Return whether the figures of a run may have changed since the last look."""
        return row.state == "running" or self._earlier_rows.get(row.run_id) != row


def progress_events(
    key: str, earlier: RunProgress | None, row: RunProgress
) -> list[BatchEvent]:
    """Return what has happened to a run between two looks at its row."""
    state = "queued" if earlier is None else earlier.state
    events: list[BatchEvent] = []
    if state == "running" and _has_another_worker(earlier, row):
        events.append(_stopped(key, row, _TAKEN_OVER))
        state = "queued"
    if row.state == state:
        return events
    if state in ("ended", "dead"):
        events.append(_stopped(key, row, "queued again"))
    if row.state == "queued":
        return events or [_stopped(key, row, row.reason)]
    if state != "running" and row.started_at is not None:
        started_at = _text(row.started_at)
        events.append(EntryStarted(at=started_at, key=key, run_id=row.run_id))
    if row.state == "running":
        return events
    at = _text(row.ended_at)
    if row.status == "skipped":
        events.append(EntrySkipped(at=at, key=key, reason=row.reason))
        return events
    status = "failed" if row.state == "dead" else row.status
    message = row.reason
    events.append(EntryEnded(at=at, key=key, status=status, message=message))
    return events


def _has_another_worker(earlier: RunProgress | None, row: RunProgress) -> bool:
    return row.state == "running" and earlier is not None and earlier.token != row.token


def _stopped(key: str, row: RunProgress, message: str) -> EntryEnded:
    at = _text(row.ended_at)
    return EntryEnded(at=at, key=key, status="stopped", message=message, stopped=True)


def _text(moment: datetime | None) -> str:
    """Return a moment as events have it; None is now."""
    utc = datetime.now(UTC) if moment is None else moment.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds")
