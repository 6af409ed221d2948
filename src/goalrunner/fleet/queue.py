"""The queue: procrastinate on PostgreSQL, which delivers the ids of runs to workers.

A job may be delivered more than once, or to a worker that dies: which worker has a run
is decided by `runs`, and the queue only says that there is something to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from itertools import combinations
from typing import Any, LiteralString

import procrastinate
from procrastinate.exceptions import (
    AlreadyEnqueued,
    ConnectorException,
)
from procrastinate.jobs import Status
from psycopg import OperationalError

from goalrunner.core.errors import UsageError, quoted, some
from goalrunner.fleet import LEASE
from goalrunner.fleet.database import Database, has_table, migrate
from goalrunner.fleet.runs import ready_runs

TASK = "goal.run"
_PAUSE = 1.0
_MOST_ABILITIES = 10
"""Labels and secrets of a worker: it listens to a queue for each set of them."""


def labels_of(text: str) -> tuple[str, ...]:
    """Return the labels of a list with commas. Raise UsageError."""
    labels = tuple(filter(None, (word.strip() for word in text.split(","))))
    for label in labels:
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", label) is None:
            raise UsageError(
                f"{quoted(label)} can be no label",
                "use letters, digits, dots, hyphens and underscores: gpu,linux",
            )
    return labels


def queue_name(queue: str, labels: Iterable[str], secrets: Iterable[str]) -> str:
    """Return the queue of the runs that need these labels and secrets of a worker."""
    needs = sorted([*labels, *(f"${name}" for name in secrets)])
    return "+".join([queue, *needs])


def queues_of(
    queues: Sequence[str], labels: Sequence[str], secrets: Sequence[str]
) -> list[str]:
    """Return the queues whose runs a worker can do.

    Raise UsageError if it has too many labels and secrets.
    """
    abilities = sorted({*labels, *(f"${name}" for name in secrets)})
    if len(abilities) > _MOST_ABILITIES:
        raise UsageError(
            f"a worker has up to {_MOST_ABILITIES} labels and secrets together, "
            f"not {len(abilities)}: {some(abilities)}",
            "start several workers",
        )
    # procrastinate compares names of queues only, so each set of needs is a queue: a
    # worker listens to those for all sets of what it has.
    names: list[str] = []
    for queue in queues:
        for size in range(len(abilities) + 1):
            for needs in combinations(abilities, size):
                names.append("+".join([queue, *needs]))
    return names


class _PatientConnector(procrastinate.PsycopgConnector):
    """A connector of a worker, which takes jobs again when the database answers."""

    def __init__(self, url: str, is_ending: Callable[[], bool]) -> None:
        # With many workers, connections are what the database runs out of first.
        # The one that listens for notices is not among these.
        super().__init__(conninfo=url, min_size=1, max_size=4)
        self._is_ending = is_ending

    async def execute_query_one_async(
        self, query: LiteralString, **arguments: Any
    ) -> dict[str, Any]:
        """Return a row. Raise ConnectorException if the worker is ending."""
        while True:
            try:
                row: dict[str, Any] = await super().execute_query_one_async(
                    query, **arguments
                )
                return row
            except ConnectorException as error:
                # Another error comes again: a job that has been finished, and whose
                # answer was lost, cannot be finished twice.
                is_away = isinstance(error.__cause__, OperationalError)
                if self._is_ending() or not is_away:
                    raise
                # Otherwise procrastinate waits for all jobs at work, and takes none.
                await asyncio.sleep(_PAUSE)


def queue_app(
    url: str,
    run: Callable[[str], Awaitable[None]] | None = None,
    is_ending: Callable[[], bool] = lambda: True,
) -> procrastinate.App:
    """Return the application of a database.

    `run` performs the jobs of a worker, which waits for the database until
    `is_ending()`.
    """
    app = procrastinate.App(connector=_PatientConnector(url, is_ending))

    async def perform(run_id: str) -> None:
        assert run is not None
        await run(run_id)

    app.task(name=TASK)(perform)
    return app


async def enqueue(
    app: procrastinate.App,
    run_id: str,
    queue: str,
    priority: int,
    at: datetime | None = None,
) -> None:
    """Queue a run, which is queued once at most. It is delivered at a time, or now."""
    options: dict[str, Any] = {"schedule_at": at} if at is not None else {}
    # The lock holds only until a worker begins the job: a run that is given back
    # meanwhile can be queued again.
    deferrer = app.configure_task(
        TASK, queue=queue, priority=priority, queueing_lock=run_id, **options
    )
    try:
        await deferrer.defer_async(run_id=run_id)
    except AlreadyEnqueued:
        return


async def remove_stalled_jobs(app: procrastinate.App) -> int:
    """Remove the jobs that workers had begun when they were killed; return how many.

    Nothing else ends them. Their runs need no job, because a run that can be taken gets
    a new one. If a worker was only stopped, its process of the run ends as well.
    """
    stalled_jobs = await app.job_manager.get_stalled_jobs(
        # The queue has a heartbeat of its own, which shorter leases do not change.
        task_name=TASK,
        seconds_since_heartbeat=LEASE,
    )
    removed = 0
    for job in stalled_jobs:
        # Another worker that starts now removes the same ones.
        with contextlib.suppress(ConnectorException):
            await app.job_manager.finish_job(job, Status.FAILED, delete_job=True)
            removed += 1
    return removed


async def prepare_database(url: str) -> int:
    """Make the tables of the fleet and of its queue; return how many steps it took."""
    with Database(url) as database:
        steps = database.call(migrate)
        has_queue = database.call(
            lambda connection: has_table(connection, "procrastinate_jobs")
        )
    if not has_queue:
        app = queue_app(url)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
    return steps


async def enqueue_now(database: Database, *, removes_stalled: bool = False) -> None:
    """Queue the runs that can begin. Workers do this every few seconds as well.

    `removes_stalled`: also remove what killed workers left, as workers do at the start.
    """
    ready = database.call(ready_runs)
    app = queue_app(database.url)
    async with app.open_async():
        if removes_stalled:
            await remove_stalled_jobs(app)
        for run in ready:
            name = queue_name(run.queue, run.labels, run.secrets)
            await enqueue(app, run.run_id, name, run.priority)
