"""What a fleet of any size asks of its database, computed from measured costs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEASURES = Path(__file__).with_name("fleet_measures.json")
BEFORE = {"beat_cpu_ms": 43.0, "beat_connections": 7.05, "deep_beat_cpu_ms": 1371.0}
"""A sign of life, measured in the same way when each worker looked after the runs of all,
and opened a connection for each question; the last one with 1,000,000 queued runs.
"""
CALLS = 60
"""Assumption: calls of tools of one goal."""
ROUNDS = 3
"""Assumption, as in the model."""
BEAT = 5.0
"""Seconds between two signs of life: a setting, a sixth of the lease."""
POLL = 5.0
"""Seconds between two looks of a worker into its queue: a setting of procrastinate."""
QUEUE_BEAT = 10.0
"""Seconds between two signs of life of the queue's own: a setting of procrastinate."""
CORES = 16
"""Assumption: processors of a database server."""
CONNECTIONS = 500
"""Assumption: connections that a server without a pooler is configured for."""


@dataclass(frozen=True)
class FleetLoad:
    """A fleet at work, as rates."""

    workers: int
    goals_a_second: float
    """That begin, and that end."""
    queued: int
    losses_a_second: float = 0.0
    holds_a_second: float = 0.0
    """Deliveries of runs whose account is paused."""
    idle: int = 0
    jobs: int = 1
    """Runs of one worker."""


@dataclass(frozen=True)
class Demand:
    """What one cause asks of the database in a second."""

    cores: float = 0.0
    commits: float = 0.0
    wal: float = 0.0
    """Bytes."""


class Measures:
    """Measured costs, by their names."""

    def __init__(self, values: Mapping[str, Mapping[str, Any]]) -> None:
        self.values = values

    @classmethod
    def read(cls) -> Measures:
        return cls(json.loads(MEASURES.read_text("utf-8")))

    def number(self, name: str) -> float:
        return float(self.values[name]["value"])

    def part(self, name: str, key: str) -> float:
        return float(self.values[name]["value"][key])

    def seconds(self, name: str) -> float:
        """Return the processor seconds of one piece of work."""
        value = self.values[name]["value"]
        return float(value["cpu_ms"] if isinstance(value, Mapping) else value) / 1000

    def wal(self, name: str) -> float:
        return self.part(name, "wal_bytes")

    def at(self, name: str, amount: float) -> float:
        """Return the processor seconds at an amount, between two measured ones."""
        points = sorted(
            (float(key), float(value))
            for key, value in self.values[name]["value"].items()
        )
        for (left, low), (right, high) in itertools.pairwise(points):
            if amount <= right:
                return (low + (high - low) * (amount - left) / (right - left)) / 1000
        (left, low), (right, high) = points[-2:]
        return (high + (high - low) * (amount - right) / (right - left)) / 1000

    def per_goal(self, what: str) -> float:
        """Return a count of one goal: linear in its calls, between 1 and 21."""
        one = self.part("run_of_1_calls", what)
        return one + (self.part("run_of_21_calls", what) - one) * (CALLS - 1) / 20


def demands(load: FleetLoad, measures: Measures) -> dict[str, Demand]:
    """Return what a fleet asks of its database, by cause."""
    rate, workers = load.goals_a_second, load.workers
    deliveries = rate + load.losses_a_second + load.holds_a_second
    writes = measures.per_goal("writes")
    archives = measures.part("run_of_1_calls", "archives") * ROUNDS
    reads = CALLS + ROUNDS
    beat = measures.seconds("busy_worker_beat")
    alive = workers * (
        beat / BEAT
        + measures.seconds("fetch_nothing") / POLL
        + measures.seconds("queue_heartbeat") / QUEUE_BEAT
        # The figures of its other runs; as if they changed each time.
        + (load.jobs - 1) * measures.seconds("update_summary") / BEAT
    )
    delivery = sum(map(measures.seconds, ("enqueue", "fetch_job", "finish_job")))
    run = (
        measures.seconds("take_run")
        + measures.seconds("end_run")
        + 2 * measures.seconds("connection")
    )
    # A commit wakes each listener once, and each idle worker then looks for a job.
    notice = measures.at("notice_by_listeners", workers)
    wake = load.idle * measures.seconds("fetch_nothing")
    return {
        "signs of life": Demand(
            alive,
            workers * measures.part("busy_worker_beat", "commits") / BEAT,
            workers * measures.wal("busy_worker_beat") / BEAT,
        ),
        "lines of logs": Demand(
            rate * writes * measures.seconds("intent"),
            rate * writes,
            rate * writes * measures.wal("intent"),
        ),
        "looks at pauses": Demand(
            rate * reads * measures.seconds("pause_read"), rate * reads
        ),
        "archives": Demand(
            rate * archives * measures.seconds("record_shipped"),
            rate * archives,
            rate * archives * measures.wal("record_shipped"),
        ),
        "starts and ends": Demand(
            deliveries * delivery + (rate + load.losses_a_second) * run,
            5 * deliveries,
            rate * (measures.wal("take_run") + measures.wal("end_run")),
        ),
        "notices": Demand(deliveries * (notice + wake), 0.0),
        "upkeep": Demand(
            (
                measures.at("ready_runs_by_depth", load.queued)
                + measures.seconds("free_runs_of_10000_workers") * workers / 10_000
            )
            / BEAT,
            2 / BEAT,
        ),
    }


def total(parts: Mapping[str, Demand]) -> Demand:
    return Demand(
        sum(part.cores for part in parts.values()),
        sum(part.commits for part in parts.values()),
        sum(part.wal for part in parts.values()),
    )


def connections(workers: int, jobs: int, measures: Measures) -> float:
    """Return the connections of workers with so many runs each."""
    idle = measures.number("idle_worker_connections")
    run = measures.number("busy_worker_connections") - idle
    return workers * (idle + run * jobs)
