"""Submitting goals to a fleet."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg.types.json import Jsonb

from goalrunner.batches.frozen_goal import goal_of
from goalrunner.batches.plan import BatchEntry
from goalrunner.batches.submission import Submission
from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import SCRIPTED
from goalrunner.core.goal import Goal
from goalrunner.fleet import DEFAULT_QUEUE
from goalrunner.fleet.database import Connection
from goalrunner.fleet.job import FleetJob, StoredSource
from goalrunner.fleet.sources import Source, pack
from goalrunner.fleet.store import FleetStore
from goalrunner.records.run_search import new_run_id
from goalrunner.snapshots.repositories import enclosing

_NOWHERE = Path("/nonexistent")
"""In place of a GOAL_HOME: the runs of this machine do not count here."""


@dataclass(frozen=True)
class SubmitOptions:
    """How goals are queued."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """A higher one comes first."""
    labels: Sequence[str] = ()
    """What a worker needs to have: "gpu"."""
    secrets: Sequence[str] = ()
    """Names of variables that a worker needs to have."""
    after: Sequence[str] = ()
    """Ids of runs that must be complete before."""
    batch: str = ""
    deadline: str | None = None
    """When the goals are given up, in ISO 8601 with a time zone."""


@dataclass(frozen=True)
class NewRun:
    """A run that is about to be queued."""

    run_id: str
    entry: BatchEntry
    job: FleetJob
    after: tuple[str, ...]
    """Ids of runs."""
    account: str
    """The agent's program, or the provider of its model."""


_USED_IDS = "SELECT run_id FROM goal_fleet_runs WHERE run_id = ANY (%s)"


def new_ids(
    connection: Connection,
    entries: Sequence[BatchEntry],
    source: random.Random | None = None,
) -> dict[str, str]:
    """Return the id of a new run for each entry, by its key.

    `source` is the source of randomness.
    """
    run_ids: dict[str, str] = {}
    without_id = list(entries)
    # Ids are short, for people: of 10,000 goals that begin with the same words, some
    # would have the id of another one.
    while without_id:
        for entry in without_id:
            run_ids[entry.key] = new_run_id(_NOWHERE, entry.objective, source)
        numbers = Counter(run_ids.values())
        rows = connection.execute(_USED_IDS, [list(numbers)]).fetchall()
        used_ids = {str(row["run_id"]) for row in rows}
        without_id = []
        for entry in entries:
            run_id = run_ids[entry.key]
            if run_id in used_ids or numbers[run_id] > 1:
                without_id.append(entry)
    return run_ids


def new_runs(
    submission: Submission,
    store: FleetStore,
    options: SubmitOptions,
    run_ids: Mapping[str, str],
    environ: Mapping[str, str] = os.environ,
) -> list[NewRun]:
    """Return a run for each goal, whose files are in the store now.

    `run_ids` are those of `new_ids`.
    Goals of one workspace share its source. Raise GoalError.
    """
    sources: dict[str, Source] = {}
    made: list[NewRun] = []
    for entry in submission.entries:
        run_id = run_ids[entry.key]
        if entry.workspace not in sources:
            key = f"sources/{run_id}.bundle"
            sources[entry.workspace] = pack(Path(entry.workspace), store, key, environ)
        job = FleetJob(
            goal_text=submission.texts[entry.key],
            goal_file=_path_in_repository(entry),
            options=entry.options,
            source=StoredSource(**sources[entry.workspace].as_json()),
        )
        before = [run_ids[key] for key in entry.after]
        account = _account(goal_of(entry, submission.texts[entry.key]))
        made.append(NewRun(run_id, entry, job, (*before, *options.after), account))
    return made


def _account(goal: Goal) -> str:
    """Return the account of the agent's calls, as the runs of a batch name it."""
    if goal.agent.external:
        return goal.agent.names[0]
    model = goal.agent.model
    return model if model.startswith(SCRIPTED) else model.partition("/")[0]


def _path_in_repository(entry: BatchEntry) -> str:
    """Return the path of the goal file in the repository of its workspace."""
    workspace = Path(os.path.realpath(entry.workspace))
    repository = enclosing(workspace)
    source = Path(os.path.realpath(entry.source))
    if repository is None or not source.is_relative_to(repository.root):
        raise UsageError(
            f"{entry.source} is not in the repository of its workspace "
            f"{entry.workspace}",
            "put the goal file into that repository",
        )
    return source.relative_to(repository.root).as_posix()


_INSERT = """\
INSERT INTO goal_fleet_runs
    (run_id, batch, name, objective, job, queue, priority, labels, secrets, account,
     after, deadline)
VALUES (%(run)s, %(batch)s, %(name)s, %(objective)s, %(job)s, %(queue)s, %(priority)s,
    %(labels)s, %(secrets)s, %(account)s, %(after)s, %(deadline)s)
"""
_UNKNOWN = """\
SELECT run_id FROM unnest(%s::text[]) AS named (run_id)
WHERE NOT EXISTS (SELECT FROM goal_fleet_runs AS run WHERE run.run_id = named.run_id)
"""


def insert_runs(
    connection: Connection, new: Sequence[NewRun], options: SubmitOptions
) -> None:
    """Queue runs: all of them, or none. Raise UsageError for an unknown `after`."""
    unknown = connection.execute(_UNKNOWN, [list(options.after)]).fetchall()
    if unknown:
        raise UsageError(
            f"there is no run {unknown[0]['run_id']} in the fleet",
            "goal fleet status lists the runs",
        )
    parameters: list[dict[str, Any]] = []
    for run in new:
        parameters.append(
            {
                "run": run.run_id,
                "batch": options.batch,
                "name": run.entry.name,
                "objective": run.entry.objective,
                "job": Jsonb(run.job.model_dump(mode="json")),
                "queue": options.queue,
                "priority": options.priority,
                "labels": list(options.labels),
                "secrets": list(options.secrets),
                "account": run.account,
                "after": list(run.after),
                "deadline": options.deadline,
            }
        )
    # One round trip for many rows, in the transaction of the caller.
    with connection.cursor() as cursor:
        cursor.executemany(_INSERT, parameters)
