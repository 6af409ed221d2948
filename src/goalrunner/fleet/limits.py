"""What all workers together may do with a queue or an account.

An account is an agent's program or the provider of a model. Its usage limits pause all
runs that use it; a limit of runs or of dollars a day holds back further ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from goalrunner.batches.shared_pauses import AccountPause, SharedPauses
from goalrunner.fleet.database import Connection, Database

LimitKind = Literal["queue", "account"]
_HOLD = 10.0
"""Seconds until a run is tried again that was held back because of too many others."""


@dataclass(frozen=True)
class FleetLimit:
    """The limits of one queue or account; None: no limit."""

    kind: LimitKind
    name: str
    runs: int | None = None
    """The most runs at the same time."""
    cost_per_day: float | None = None
    """US dollars a day, by UTC."""
    paused_until: datetime | None = None
    pauses: int = 0
    """How often in a row the limit of the account was reached, if its end is not
    known."""
    reason: str = ""
    running: int = 0
    """Runs at work now."""
    cost_today: float = 0.0
    """US dollars that are known of today."""


_LIST = """\
SELECT kind, name, runs, cost_per_day, paused_until, pauses, reason,
    (SELECT count(*) FROM goal_fleet_runs AS run WHERE run.state = 'running'
        AND CASE kind WHEN 'queue' THEN run.queue ELSE run.account END = limits.name
    ) AS running,
    (SELECT coalesce(sum(cost_usd), 0) FROM goal_fleet_spending AS spent
        WHERE spent.day = (clock_timestamp() AT TIME ZONE 'utc')::date
        AND CASE kind WHEN 'queue' THEN spent.queue ELSE spent.account END = limits.name
    ) AS cost_today
FROM goal_fleet_limits AS limits
"""
_OF_RUN = """\
WHERE kind = 'queue' AND name = %(queue)s OR kind = 'account' AND name = %(account)s
ORDER BY kind, name
"""
# With the rows locked, of two workers that take a run at once, the second one counts
# the run of the first.
_LOCK = "SELECT FROM goal_fleet_limits " + _OF_RUN + "FOR UPDATE"
_NOW = """\
SELECT clock_timestamp() AS now,
    date_trunc('day', clock_timestamp(), 'UTC') + interval '1 day' AS tomorrow
"""


def list_limits(connection: Connection) -> list[FleetLimit]:
    """Return all limits, with what is used of them."""
    rows = connection.execute(_LIST + "ORDER BY kind, name").fetchall()
    return [FleetLimit(**row) for row in rows]


@dataclass(frozen=True)
class Hold:
    """Why a run may not begin now, and when it is tried again."""

    until: datetime
    reason: str


def hold_of(connection: Connection, queue: str, account: str) -> Hold | None:
    """Return why a run of this queue and account may not begin; None if it may."""
    parameters = {"queue": queue, "account": account}
    locked = connection.execute(_LOCK, parameters)
    # Most queues and accounts have no limit, and then nothing is counted.
    if not locked.rowcount:
        return None
    rows = connection.execute(_LIST + _OF_RUN, parameters).fetchall()
    times = connection.execute(_NOW).fetchone()
    assert times is not None
    holds: list[Hold] = []
    for row in rows:
        hold = _hold(FleetLimit(**row), times["now"], times["tomorrow"])
        if hold is not None:
            holds.append(hold)
    # All of them must let it go, so the last one decides.
    return max(holds, key=lambda hold: hold.until, default=None)


def _hold(limit: FleetLimit, now: datetime, tomorrow: datetime) -> Hold | None:
    which = f"{limit.kind} {limit.name}"
    if limit.paused_until is not None and limit.paused_until > now:
        return Hold(limit.paused_until, f"{which}: {limit.reason or 'paused'}")
    if limit.cost_per_day is not None and limit.cost_today >= limit.cost_per_day:
        spent = f"${limit.cost_today:.2f} of ${limit.cost_per_day:.2f} are spent today"
        return Hold(tomorrow, f"{which}: {spent}")
    if limit.runs is not None and limit.running >= limit.runs:
        seconds = datetime.fromtimestamp(now.timestamp() + _HOLD, UTC)
        return Hold(seconds, f"{which}: {limit.running} runs are at work")
    return None


_SET = """\
INSERT INTO goal_fleet_limits (kind, name, runs, cost_per_day)
VALUES (%(kind)s, %(name)s, %(runs)s, %(cost)s)
ON CONFLICT (kind, name) DO UPDATE SET
    runs = excluded.runs, cost_per_day = excluded.cost_per_day
"""


def set_limit(
    connection: Connection,
    kind: LimitKind,
    name: str,
    runs: int | None,
    cost_per_day: float | None,
) -> None:
    """Set the limits of a queue or account; None lifts one."""
    parameters = {"kind": kind, "name": name, "runs": runs, "cost": cost_per_day}
    connection.execute(_SET, parameters)


# What a run used on earlier days is subtracted, so each dollar counts on its own day.
_SPEND = """\
INSERT INTO goal_fleet_spending (run_id, day, account, queue, cost_usd)
SELECT run.run_id, today.day, run.account, run.queue, greatest(0, %(total)s - coalesce(
    (SELECT sum(cost_usd) FROM goal_fleet_spending AS earlier
     WHERE earlier.run_id = run.run_id AND earlier.day < today.day), 0))
FROM goal_fleet_runs AS run,
    (SELECT (clock_timestamp() AT TIME ZONE 'utc')::date AS day) AS today
WHERE run.run_id = %(run)s
ON CONFLICT (run_id, day) DO UPDATE SET cost_usd = excluded.cost_usd
"""


def record_spending(
    connection: Connection, run_id: str, summary: dict[str, Any]
) -> None:
    """Record what a run has used so far, by the figures of its summary."""
    total = float(summary.get("known_cost_usd") or 0.0)
    if total > 0:
        connection.execute(_SPEND, {"run": run_id, "total": total})


_OVER_BUDGET = """\
SELECT run.run_id, limits.kind, limits.name FROM goal_fleet_runs AS run
JOIN goal_fleet_limits AS limits ON limits.cost_per_day IS NOT NULL
    AND CASE kind WHEN 'queue' THEN run.queue ELSE run.account END = limits.name
WHERE run.worker_id = %(worker)s AND run.state = 'running'
    AND limits.cost_per_day <= (
        SELECT coalesce(sum(cost_usd), 0) FROM goal_fleet_spending AS spent
        WHERE spent.day = (clock_timestamp() AT TIME ZONE 'utc')::date
        AND limits.name
            = CASE kind WHEN 'queue' THEN spent.queue ELSE spent.account END)
"""


def runs_over_budget(connection: Connection, worker_id: int) -> list[str]:
    """Return the runs of a worker that must stop, because the day's dollars are
    spent.
    """
    rows = connection.execute(_OVER_BUDGET, {"worker": worker_id}).fetchall()
    return sorted({row["run_id"] for row in rows})


_READ_PAUSE = """\
SELECT paused_until, pauses, reason FROM goal_fleet_limits
WHERE kind = 'account' AND name = %s AND paused_until IS NOT NULL
"""
_WRITE_PAUSE = """\
INSERT INTO goal_fleet_limits (kind, name, paused_until, pauses, reason)
VALUES ('account', %(name)s, %(until)s, %(number)s, %(reason)s)
ON CONFLICT (kind, name) DO UPDATE SET paused_until = excluded.paused_until,
    pauses = excluded.pauses, reason = excluded.reason
"""


class FleetPauses(SharedPauses):
    """The pauses of all accounts, for one run of the fleet."""

    def __init__(self, database: Database, run_id: str) -> None:
        super().__init__(run_id)
        self._database = database

    def read(self, name: str) -> AccountPause | None:
        row = self._database.call(
            lambda connection: connection.execute(_READ_PAUSE, [name]).fetchone()
        )
        if row is None:
            return None
        return AccountPause(
            until=row["paused_until"],
            reason=row["reason"],
            run_id="another",
            number=row["pauses"],
        )

    def write(self, name: str, pause: AccountPause) -> None:
        parameters = {
            "name": name,
            "until": pause.until,
            "number": pause.number,
            "reason": pause.reason,
        }
        self._database.call(
            lambda connection: connection.execute(_WRITE_PAUSE, parameters)
        )
