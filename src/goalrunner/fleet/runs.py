"""The runs of a fleet in the database: which worker has which one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from goalrunner.core.errors import UsageError
from goalrunner.fleet import LEASE
from goalrunner.fleet.database import Connection
from goalrunner.fleet.limits import hold_of, record_spending

MOST_DEATHS = 3
"""Workers that a run may cost before it is given up."""


@dataclass(frozen=True)
class WorkerRow:
    """How a worker presents itself."""

    name: str
    host: str
    pid: int
    jobs: int
    queues: Sequence[str] = ()
    """The queues that it serves; empty: all."""
    labels: Sequence[str] = ()
    secrets: Sequence[str] = ()
    """Names of the secrets that it has; their values stay with it."""


@dataclass(frozen=True)
class TakenRun:
    """A run that a worker has taken."""

    run_id: str
    token: int
    job: dict[str, Any]
    previous_token: int = 0
    """That of the worker before, whose lines of the log count; 0: there was none."""
    shipped: tuple[str, ...] = ()
    """The archives of the run's folder in the store, in their order."""
    shipped_seq: int = 0
    """The number of the last event that they hold."""
    shipped_token: int = 0
    """That of the worker that stored the last one."""


_REGISTER = """\
INSERT INTO goal_fleet_workers (name, host, pid, jobs, queues, labels, secrets)
VALUES (%(name)s, %(host)s, %(pid)s, %(jobs)s, %(queues)s, %(labels)s, %(secrets)s)
ON CONFLICT DO NOTHING RETURNING worker_id
"""


def register(connection: Connection, worker: WorkerRow) -> int:
    """Return the number of a new worker.

    Raise UsageError if a worker of that name is alive. One that has not been seen for a
    lease is taken for dead.
    """
    connection.execute(
        "UPDATE goal_fleet_workers SET stopped_at = clock_timestamp() "
        "WHERE name = %s AND stopped_at IS NULL "
        "AND seen_at < clock_timestamp() - make_interval(secs => %s)",
        [worker.name, LEASE],
    )
    parameters = {
        "name": worker.name,
        "host": worker.host,
        "pid": worker.pid,
        "jobs": worker.jobs,
        "queues": list(worker.queues),
        "labels": list(worker.labels),
        "secrets": list(worker.secrets),
    }
    row = connection.execute(_REGISTER, parameters).fetchone()
    if row is None:
        raise UsageError(
            f"there is a worker {worker.name} already",
            f"choose another --name, or wait {LEASE:g} s if it was killed",
        )
    return int(row["worker_id"])


_HEARTBEAT = """\
UPDATE goal_fleet_workers
SET seen_at = clock_timestamp(),
    steady_since = CASE
        WHEN seen_at < clock_timestamp() - make_interval(secs => %(lease)s / 2)
        THEN clock_timestamp() ELSE steady_since END
WHERE worker_id = %(worker)s AND stopped_at IS NULL RETURNING worker_id
"""


def heartbeat(connection: Connection, worker_id: int, lease: float = LEASE) -> bool:
    """Say that a worker is alive; return whether it may go on.

    It may not if it was taken for dead meanwhile: its runs belong to others.
    """
    parameters = {"worker": worker_id, "lease": lease}
    return connection.execute(_HEARTBEAT, parameters).fetchone() is not None


def sign_off(connection: Connection, worker_id: int) -> None:
    """Say that a worker has ended; what it still had can be taken at once."""
    connection.execute(
        "UPDATE goal_fleet_workers SET stopped_at = clock_timestamp() "
        "WHERE worker_id = %s AND stopped_at IS NULL",
        [worker_id],
    )


# The row of the worker is locked first, as `heartbeat` does: one that has just been
# seen is not taken for dead.
_TAKE_DEAD = """\
UPDATE goal_fleet_workers SET stopped_at = clock_timestamp()
WHERE stopped_at IS NULL
    AND seen_at < clock_timestamp() - make_interval(secs => %(lease)s)
    AND (%(observer)s::bigint IS NULL OR EXISTS (
        SELECT FROM goal_fleet_workers AS observer
        WHERE observer.worker_id = %(observer)s AND observer.stopped_at IS NULL
            -- Its own sign of life may wait behind this question.
            AND observer.seen_at
                > clock_timestamp() - make_interval(secs => %(lease)s / 2)
            AND observer.steady_since
                < clock_timestamp() - make_interval(secs => %(lease)s)))
"""
# The token rises here already, not only when the run is taken: a process of the dead
# worker that is still alive can write no further line, so no further effect follows.
_REQUEUE = """\
UPDATE goal_fleet_runs AS run
SET token = token + 1, worker_id = NULL,
    deaths = deaths + 1,
    state = CASE WHEN deaths + 1 >= %s THEN 'dead' ELSE 'queued' END,
    reason = format('worker %%s ended without ending the run', worker.name),
    ended_at = CASE WHEN deaths + 1 >= %s THEN clock_timestamp() END
FROM goal_fleet_workers AS worker
WHERE run.state = 'running' AND worker.worker_id = run.worker_id
    AND worker.stopped_at IS NOT NULL
RETURNING run.run_id, run.state
"""


def free_runs_of_dead(
    connection: Connection, lease: float = LEASE, observer: int | None = None
) -> list[str]:
    """Free the runs of dead workers; return those that can be taken again.

    A run that has cost `MOST_DEATHS` workers in a row is given up. `observer` is a
    worker that asks: if the database did not hear from it for a while, it may not have
    heard from the others for the same reason, so they have another lease.
    """
    # In one transaction: a sign of life that comes between the two waits, and then says
    # that its worker is dead.
    connection.execute(_TAKE_DEAD, {"lease": lease, "observer": observer})
    rows = connection.execute(_REQUEUE, [MOST_DEATHS, MOST_DEATHS]).fetchall()
    return [row["run_id"] for row in rows if row["state"] == "queued"]


# `previous_token` is that of the last line, not that of the last worker: one that took
# the run and wrote nothing has not changed it.
_TAKE_RUN = """\
UPDATE goal_fleet_runs
SET state = 'running', token = token + 1, worker_id = %(worker)s,
    not_before = NULL, reason = '',
    started_at = coalesce(started_at, clock_timestamp())
WHERE run_id = %(run)s AND state = 'queued' AND EXISTS (
    -- It waits for one that is just taken for dead.
    SELECT FROM goal_fleet_workers
    WHERE worker_id = %(worker)s AND stopped_at IS NULL FOR SHARE)
RETURNING run_id, token, job, shipped, shipped_seq, shipped_token,
    (SELECT coalesce(max(intent.token), 0) FROM goal_fleet_intents AS intent
     WHERE intent.run_id = goal_fleet_runs.run_id) AS previous_token
"""


_QUEUED = """\
SELECT queue, account FROM goal_fleet_runs
WHERE run_id = %s AND state = 'queued' FOR UPDATE
"""
_HOLD_BACK = """\
UPDATE goal_fleet_runs SET not_before = %s, reason = %s WHERE run_id = %s
"""


def take_run(connection: Connection, run_id: str, worker_id: int) -> TakenRun | None:
    """Take a run; return None if it is not to be had.

    A worker that was taken for dead, and has not noticed it yet, gets none. A job can
    be delivered twice, and the second one finds nothing to do. A run that a limit holds
    back is delivered again later.
    """
    # Its row is locked first, then those of limits: with another order, two workers
    # could wait for each other.
    queued = connection.execute(_QUEUED, [run_id]).fetchone()
    if queued is None:
        return None
    hold = hold_of(connection, queued["queue"], queued["account"])
    if hold is not None:
        connection.execute(_HOLD_BACK, [hold.until, hold.reason, run_id])
        return None
    parameters = {"run": run_id, "worker": worker_id}
    row = connection.execute(_TAKE_RUN, parameters).fetchone()
    if row is None:
        return None
    return TakenRun(**{**row, "shipped": tuple(row["shipped"])})


_SHIP = """\
UPDATE goal_fleet_runs
SET shipped = CASE WHEN %(is_whole)s THEN ARRAY[%(archive)s::text]
        ELSE shipped || %(archive)s::text END,
    shipped_seq = %(seq)s,
    shipped_token = %(token)s,
    deaths = CASE WHEN %(ends_round)s THEN 0 ELSE deaths END,
    summary = %(summary)s
WHERE run_id = %(run)s AND token = %(token)s AND state = 'running' RETURNING run_id
"""


def record_shipped(
    connection: Connection,
    taken_run: TakenRun,
    archive: str,
    seq: int,
    summary: dict[str, Any],
    *,
    ends_round: bool = False,
    is_whole: bool = False,
) -> bool:
    """Record an archive of the run's folder; return False if the run was lost.

    One that is whole replaces those before it.

    Workers that died before the end of a round do not count after it: their number is
    limited by that of the rounds.
    """
    parameters = {
        "run": taken_run.run_id,
        "token": taken_run.token,
        "archive": archive,
        "seq": seq,
        "ends_round": ends_round,
        "is_whole": is_whole,
        "summary": Jsonb(summary),
    }
    return connection.execute(_SHIP, parameters).fetchone() is not None


_END = """\
UPDATE goal_fleet_runs
SET state = 'ended', status = %(status)s, exit_code = %(code)s, summary = %(summary)s,
    reason = '', deaths = 0, worker_id = NULL, ended_at = clock_timestamp()
WHERE run_id = %(run)s AND token = %(token)s AND state = 'running' RETURNING run_id
"""


def end_run(
    connection: Connection,
    taken_run: TakenRun,
    status: str,
    code: int,
    summary: dict[str, Any],
) -> bool:
    """Record the end of a run; return False if another worker has it."""
    parameters = {
        "run": taken_run.run_id,
        "token": taken_run.token,
        "status": status,
        "code": code,
        "summary": Jsonb(summary),
    }
    has_ended = connection.execute(_END, parameters).fetchone() is not None
    if has_ended:
        record_spending(connection, taken_run.run_id, summary)
    return has_ended


# The token rises, so that what is left of the process writes nothing. Deaths count only
# in a row: a run that was given back in order has shown that it does not kill workers.
_RELEASE = """\
UPDATE goal_fleet_runs
SET token = token + 1, state = CASE WHEN %(died)s AND deaths + 1 >= %(most)s
        THEN 'dead' ELSE 'queued' END,
    deaths = CASE WHEN %(died)s THEN deaths + 1 ELSE 0 END,
    ended_at = CASE WHEN %(died)s AND deaths + 1 >= %(most)s
        THEN clock_timestamp() END,
    worker_id = NULL, reason = %(reason)s
WHERE run_id = %(run)s AND token = %(token)s AND state = 'running'
RETURNING state
"""


def give_back(
    connection: Connection, taken_run: TakenRun, reason: str, *, died: bool
) -> str | None:
    """Give a run back; return its state, or None if another worker has it.

    `died`: its process ended without an end of the run. After `MOST_DEATHS` in a row
    the run is given up.
    """
    parameters = {
        "run": taken_run.run_id,
        "token": taken_run.token,
        "reason": reason,
        "died": died,
        "most": MOST_DEATHS,
    }
    row = connection.execute(_RELEASE, parameters).fetchone()
    return None if row is None else str(row["state"])


@dataclass(frozen=True)
class QueuedRun:
    """What the queue has to know of a run."""

    run_id: str
    queue: str
    priority: int
    labels: Sequence[str]
    secrets: Sequence[str]


# A run is skipped if one of those that it comes after did not become complete. It is
# ready if all of them have, and the queue does not have it yet.
_EXPIRE = """\
UPDATE goal_fleet_runs
SET state = 'ended', status = 'skipped', reason = 'its deadline is over',
    ended_at = clock_timestamp()
WHERE state = 'queued' AND deadline < clock_timestamp()
"""
_EXPIRE_RUNNING = """\
UPDATE goal_fleet_runs SET cancel_reason = 'its deadline is over'
WHERE state = 'running' AND deadline < clock_timestamp() AND cancel_reason IS NULL
"""
_SKIP = """\
UPDATE goal_fleet_runs AS run
SET state = 'ended', status = 'skipped', ended_at = clock_timestamp(),
    reason = format('%s is not complete', before.name)
FROM goal_fleet_runs AS before
WHERE run.state = 'queued' AND run.after <> '{}' AND before.run_id = ANY (run.after)
    AND (before.state = 'dead'
        OR before.state = 'ended' AND before.status <> 'complete')
"""
_READY = """\
SELECT run_id, queue, priority, labels, secrets FROM goal_fleet_runs AS run
WHERE state = 'queued'
    AND (not_before IS NULL OR not_before <= clock_timestamp())
    AND NOT EXISTS (
        SELECT FROM unnest(run.after) AS before (run_id)
        LEFT JOIN goal_fleet_runs AS other USING (run_id)
        WHERE other.status IS DISTINCT FROM 'complete')
    AND NOT EXISTS (
        SELECT FROM procrastinate_jobs AS job
        WHERE job.queueing_lock = run.run_id AND job.status = 'todo')
ORDER BY priority DESC, submitted_at LIMIT 1000
"""


_TAKE_UPKEEP = """\
UPDATE goal_fleet_upkeep SET at = clock_timestamp()
WHERE at < clock_timestamp() - make_interval(secs => %s) RETURNING at
"""
_HAS_FOLLOWERS = """\
SELECT EXISTS (
    SELECT FROM goal_fleet_runs
    WHERE state = 'queued' AND after <> '{}' AND %s = ANY (after)) AS has_followers
"""


def take_upkeep(connection: Connection, seconds: float) -> bool:
    """Return whether the runs of all workers are to be looked after by the one that
    asks: the last time was so many seconds ago.

    What it costs grows with the number of queued runs, so not every worker does it.
    """
    return connection.execute(_TAKE_UPKEEP, [seconds]).fetchone() is not None


def has_followers(connection: Connection, run_id: str) -> bool:
    """Return whether queued runs come after this one."""
    row = connection.execute(_HAS_FOLLOWERS, [run_id]).fetchone()
    return row is not None and bool(row["has_followers"])


def ready_runs(connection: Connection) -> list[QueuedRun]:
    """Return the runs that can begin and that the queue does not have."""
    # In this order: what comes after a run whose deadline is over is skipped at once.
    for statement in (_EXPIRE, _EXPIRE_RUNNING, _SKIP):
        connection.execute(statement)
    rows = connection.execute(_READY).fetchall()
    return [QueuedRun(**row) for row in rows]


def cancelled_runs(connection: Connection, worker_id: int) -> dict[str, str]:
    """Return the runs of a worker that are to be cancelled, each with the reason."""
    rows = connection.execute(
        "SELECT run_id, cancel_reason FROM goal_fleet_runs "
        "WHERE worker_id = %s AND state = 'running' AND cancel_reason IS NOT NULL",
        [worker_id],
    ).fetchall()
    return {row["run_id"]: row["cancel_reason"] for row in rows}


def runs_of_worker(connection: Connection, worker_id: int) -> list[TakenRun]:
    """Return the runs that a worker has, with the token of each."""
    rows = connection.execute(
        "SELECT run_id, token, job FROM goal_fleet_runs "
        "WHERE worker_id = %s AND state = 'running'",
        [worker_id],
    ).fetchall()
    return [TakenRun(**row) for row in rows]


def update_summary(
    connection: Connection, run_id: str, worker_id: int, summary: dict[str, Any]
) -> None:
    """Record the figures of a run as they are now, if that worker still has it."""
    connection.execute(
        "UPDATE goal_fleet_runs SET summary = %s "
        "WHERE run_id = %s AND worker_id = %s AND state = 'running'",
        [Jsonb(summary), run_id, worker_id],
    )
    record_spending(connection, run_id, summary)


@dataclass(frozen=True)
class PersonRequest:
    """A command that a person gave on another machine."""

    request_id: int
    run_id: str
    arguments: Sequence[str]
    """Of `goal`, such as ("approve", RUN, "a1")."""


_OPEN_REQUESTS = """\
SELECT request_id, run_id, arguments FROM goal_fleet_requests AS request
JOIN goal_fleet_runs AS run USING (run_id)
WHERE run.worker_id = %s AND run.state = 'running' AND request.done_at IS NULL
ORDER BY request_id
"""


def open_requests(connection: Connection, worker_id: int) -> list[PersonRequest]:
    """Return what people ask of the runs of a worker, in their order."""
    rows = connection.execute(_OPEN_REQUESTS, [worker_id]).fetchall()
    return [PersonRequest(**row) for row in rows]


def answer_request(connection: Connection, request_id: int, answer: str) -> None:
    """Record that a request was performed, and what the command printed.

    The worker may be killed before: the command is then performed again, which finds
    the decision made.
    """
    connection.execute(
        "UPDATE goal_fleet_requests SET done_at = clock_timestamp(), answer = %s "
        "WHERE request_id = %s",
        [answer, request_id],
    )


def is_draining(connection: Connection, worker_id: int) -> bool:
    """Return whether a worker shall take no further run."""
    row = connection.execute(
        "SELECT draining FROM goal_fleet_workers WHERE worker_id = %s", [worker_id]
    ).fetchone()
    return row is not None and bool(row["draining"])


_CANCEL_QUEUED = """\
UPDATE goal_fleet_runs
SET state = 'ended', status = 'cancelled', reason = %s, exit_code = 4,
    ended_at = clock_timestamp()
WHERE run_id = %s AND state = 'queued' RETURNING run_id
"""


def cancel_fleet_run(connection: Connection, run_id: str, reason: str) -> bool:
    """Cancel a run; return whether it is over.

    Otherwise its worker ends it: it looks every few seconds.
    """
    # A run that is taken between the two statements is found by the second one.
    row = connection.execute(_CANCEL_QUEUED, [reason, run_id]).fetchone()
    if row is not None:
        return True
    connection.execute(
        "UPDATE goal_fleet_runs SET cancel_reason = %s "
        "WHERE run_id = %s AND state = 'running'",
        [reason, run_id],
    )
    return False


_CANCEL_BATCH = """\
UPDATE goal_fleet_runs
SET state = 'ended', status = 'cancelled', reason = %(reason)s, exit_code = 4,
    ended_at = clock_timestamp()
WHERE batch = %(batch)s AND state = 'queued'
"""
_CANCEL_RUNNING = """\
UPDATE goal_fleet_runs SET cancel_reason = %(reason)s
WHERE batch = %(batch)s AND state = 'running'
"""


def cancel_fleet_batch(
    connection: Connection, batch: str, reason: str
) -> tuple[int, int]:
    """Cancel all runs of a batch; return how many were queued, and how many running.

    The workers of the running ones end them within a few seconds.
    """
    parameters = {"batch": batch, "reason": reason}
    # A run that is taken between the two statements is found by the second one.
    queued = connection.execute(_CANCEL_BATCH, parameters).rowcount
    running = connection.execute(_CANCEL_RUNNING, parameters).rowcount
    return queued, running


def queue_again(connection: Connection, run_id: str) -> None:
    """Queue a run that has ended, or was given up.

    Its token and its archives stay, so that it goes on where it was.
    """
    connection.execute(
        "UPDATE goal_fleet_runs SET state = 'queued', status = '', exit_code = NULL, "
        "deaths = 0, reason = '', ended_at = NULL, cancel_reason = NULL "
        "WHERE run_id = %s AND state IN ('ended', 'dead')",
        [run_id],
    )


def drain_workers(connection: Connection, name: str | None) -> list[str]:
    """Let a worker, or all of them, take no further run; return their names."""
    rows = connection.execute(
        "UPDATE goal_fleet_workers SET draining = true "
        "WHERE stopped_at IS NULL AND name = coalesce(%s, name) RETURNING name",
        [name],
    ).fetchall()
    return sorted(row["name"] for row in rows)
