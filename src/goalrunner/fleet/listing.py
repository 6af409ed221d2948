"""The runs and workers of a fleet, as rows and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from goalrunner.core.errors import RunNotFound, UsageError, quoted, some
from goalrunner.fleet import LEASE
from goalrunner.reports import figures
from goalrunner.reports.terminal_text import lines_text, printable_line, table

if TYPE_CHECKING:
    from goalrunner.fleet.database import Connection
    from goalrunner.fleet.limits import FleetLimit

_STATES = ("running", "queued", "dead", "ended")
_NARROWEST_REMARK = 12


@dataclass(frozen=True)
class FleetRun:
    """A run of a fleet, as it is listed."""

    run_id: str
    batch: str
    name: str
    objective: str
    queue: str
    state: str
    """queued, running, ended or dead."""
    status: str
    """How an ended one ended: complete, capped, blocked, failed, cancelled, skipped."""
    exit_code: int | None
    worker: str
    """The name of the worker that has it; empty: none has."""
    is_stalled: bool
    """Whether its worker gives no sign of life."""
    round: int | None
    score: float | None
    cost_usd: float | None
    waits_for: str
    """What it waits for, such as a limit, a decision, another run or a worker; empty:
    nothing, or its turn.
    """
    reason: str
    token: int
    submitted_at: str
    started_at: str | None
    ended_at: str | None

    @property
    def word(self) -> str:
        """What it does, or how it ended, in one word."""
        if self.state == "ended":
            return self.status
        return "stalled" if self.is_stalled else self.state


HOLD = """\
CASE WHEN run.state <> 'queued' THEN ''
    WHEN run.not_before > clock_timestamp() THEN run.reason
    WHEN run.after <> '{}' AND EXISTS (SELECT FROM unnest(run.after) AS before (run_id)
        LEFT JOIN goal_fleet_runs AS other USING (run_id)
        WHERE other.status IS DISTINCT FROM 'complete')
    THEN (SELECT 'after ' || string_agg(other.name, ', ') FROM goal_fleet_runs AS other
        WHERE other.run_id = ANY (run.after) AND other.status <> 'complete')
    WHEN NOT EXISTS (SELECT FROM able WHERE run.queue = ANY (able.queues)
        AND run.labels <@ able.labels AND run.secrets <@ able.secrets)
    THEN 'a worker: none that can take it is running'
    ELSE '' END"""
"""What a queued run waits for, in SQL after `ABLE`; empty: for its turn."""
# Many workers are alike, and each run is compared with all kinds of them.
ABLE = """\
WITH able AS MATERIALIZED (SELECT DISTINCT queues, labels, secrets
    FROM goal_fleet_workers WHERE stopped_at IS NULL AND NOT draining
    AND seen_at > clock_timestamp() - make_interval(secs => %(lease)s))
"""
"""What the workers can take that are alive, in SQL before a query."""

# The figures are those of the last archive that was stored.
_LIST = f"""\
{ABLE}SELECT run.run_id, run.batch, run.name, run.objective, run.queue, run.state,
    run.status, run.exit_code, run.token, run.reason,
    coalesce(worker.name, '') AS worker,
    coalesce(run.state = 'running' AND worker.seen_at
        < clock_timestamp() - make_interval(secs => %(lease)s), false) AS is_stalled,
    (run.summary ->> 'round')::integer AS round,
    (run.summary ->> 'score')::float AS score,
    (run.summary ->> 'cost_usd')::float AS cost_usd,
    CASE WHEN run.state <> 'running' THEN {HOLD}
        WHEN jsonb_array_length(run.summary -> 'approvals') > 0
            THEN 'decision ' || (run.summary -> 'approvals' -> 0 ->> 'id')
        WHEN (run.summary ->> 'asks')::boolean THEN 'answer'
        ELSE coalesce(run.summary ->> 'waits_for', '') END AS waits_for,
    run.submitted_at::text, run.started_at::text, run.ended_at::text
FROM goal_fleet_runs AS run LEFT JOIN goal_fleet_workers AS worker USING (worker_id)
"""  # noqa: S608  both parts are constants
_NEWEST = """\
WHERE %(batch)s = '' OR run.batch = %(batch)s
ORDER BY array_position(ARRAY['running', 'queued', 'dead', 'ended'], run.state),
    run.ended_at DESC NULLS LAST, run.priority DESC, run.submitted_at
LIMIT %(limit)s
"""
_COUNT = """\
SELECT CASE WHEN state = 'ended' THEN status ELSE state END AS word, count(*) AS number
FROM goal_fleet_runs WHERE %s = '' OR batch = %s GROUP BY 1
"""


def list_runs(
    connection: Connection, limit: int | None = None, batch: str = ""
) -> list[FleetRun]:
    """Return the runs, those at work first; all of them without a limit."""
    parameters = {"lease": LEASE, "limit": limit, "batch": batch}
    rows = connection.execute(_LIST + _NEWEST, parameters).fetchall()
    return [FleetRun(**row) for row in rows]


def count_runs(connection: Connection, batch: str = "") -> dict[str, int]:
    """Return how many runs there are of each word."""
    rows = connection.execute(_COUNT, [batch, batch]).fetchall()
    return {row["word"]: row["number"] for row in rows}


def find_fleet_run(connection: Connection, reference: str) -> FleetRun:
    """Return the run of that id, or of the only id that begins so.

    Raise RunNotFound.
    """
    where = "WHERE starts_with(run.run_id, %(reference)s) ORDER BY run.run_id LIMIT 9"
    parameters = {"lease": LEASE, "reference": reference}
    rows = connection.execute(_LIST + where, parameters).fetchall()
    found_runs = [FleetRun(**row) for row in rows]
    for run in found_runs:
        if run.run_id == reference:
            return run
    if len(found_runs) == 1 and reference:
        return found_runs[0]
    if found_runs:
        names = some([run.run_id for run in found_runs])
        raise RunNotFound(
            f"{quoted(reference)} matches several runs of the fleet: {names}",
            "type more of the id",
        )
    raise RunNotFound(
        f"the fleet has no run {quoted(reference)}",
        "goal fleet status lists the runs",
    )


@dataclass(frozen=True)
class FleetWorkerRow:
    """A worker of a fleet, as it is listed."""

    name: str
    host: str
    jobs: int
    running: int
    """How many runs it has."""
    queues: Sequence[str]
    labels: Sequence[str]
    secrets: Sequence[str]
    draining: bool
    seconds_since_seen: float


_WORKERS = """\
SELECT name, host, jobs, queues, labels, secrets, draining,
    extract(epoch FROM clock_timestamp() - seen_at)::float AS seconds_since_seen,
    (SELECT count(*) FROM goal_fleet_runs AS run
     WHERE run.worker_id = worker.worker_id AND run.state = 'running') AS running
FROM goal_fleet_workers AS worker WHERE stopped_at IS NULL ORDER BY name
"""


def list_workers(connection: Connection) -> list[FleetWorkerRow]:
    """Return the workers that have not ended."""
    return [FleetWorkerRow(**row) for row in connection.execute(_WORKERS).fetchall()]


def runs_table(runs: Sequence[FleetRun], columns: int | None) -> str:
    """Return a table of runs; `columns` is the width of a terminal."""
    if not runs:
        return ""
    heading = ["RUN", "STATE", "ROUND", "SCORE", "COST", "WORKER", "GOAL"]
    cells = [heading]
    for run in runs:
        remark = run.waits_for or run.reason
        goal = f"[{remark}] {run.objective}" if remark else run.objective
        row = [
            run.run_id,
            run.word,
            "-" if run.round is None else str(run.round),
            "-" if run.score is None else figures.score(run.score),
            "-" if run.cost_usd is None else f"${run.cost_usd:.2f}",
            run.worker or "-",
            goal,
        ]
        cells.append([printable_line(cell) for cell in row])
    return lines_text(table(cells, columns, _NARROWEST_REMARK))


def workers_table(workers: Sequence[FleetWorkerRow], columns: int | None) -> str:
    """Return a table of workers."""
    cells = [["WORKER", "HOST", "RUNS", "SEEN", "QUEUES AND LABELS"]]
    for worker in workers:
        seen = "now"
        if worker.seconds_since_seen > LEASE:
            seen = f"{figures.elapsed(worker.seconds_since_seen)} ago"
        notes = [*worker.queues, *worker.labels]
        notes += [f"${name}" for name in worker.secrets]
        if worker.draining:
            notes.insert(0, "draining:")
        row = [
            worker.name,
            worker.host,
            f"{worker.running}/{worker.jobs}",
            seen,
            " ".join(notes),
        ]
        cells.append([printable_line(cell) for cell in row])
    return lines_text(table(cells, columns, _NARROWEST_REMARK))


def limits_table(limits: Sequence[FleetLimit], columns: int | None) -> str:
    """Return a table of limits; empty for none."""
    if not limits:
        return ""
    cells = [["LIMIT", "RUNS", "TODAY", "PAUSED"]]
    for limit in limits:
        most = "-" if limit.runs is None else str(limit.runs)
        day = "-" if limit.cost_per_day is None else f"${limit.cost_per_day:.2f}"
        paused = ""
        if limit.paused_until is not None:
            paused = f"until {figures.moment(limit.paused_until.isoformat())}"
        row = [
            f"{limit.kind} {limit.name}",
            f"{limit.running}/{most}",
            f"${limit.cost_today:.2f}/{day}",
            f"{paused} {limit.reason}".strip(),
        ]
        cells.append([printable_line(cell) for cell in row])
    return lines_text(table(cells, columns, _NARROWEST_REMARK))


def counts_line(counts: Mapping[str, int]) -> str:
    """Return how many runs there are of each word: "3 running, 10 queued"."""
    words = sorted(counts, key=lambda word: (word not in _STATES, word))
    return ", ".join(f"{counts[word]} {word}" for word in words)


def fleet_value(
    runs: Sequence[FleetRun],
    workers: Sequence[FleetWorkerRow],
    counts: Mapping[str, int],
) -> dict[str, Any]:
    """Return the fleet as JSON."""
    return {
        "counts": dict(counts),
        "workers": [asdict(worker) for worker in workers],
        "runs": [asdict(run) for run in runs],
    }


def refuse_unless(run: FleetRun, states: Sequence[str], why: str, hint: str) -> None:
    """Raise UsageError unless the run is in one of these states."""
    if run.state not in states:
        raise UsageError(f"run {run.run_id} is {run.word}: {why}", hint)
