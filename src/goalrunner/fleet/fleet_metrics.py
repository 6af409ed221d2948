"""Metrics of workers and queues, for OpenTelemetry: `goal fleet worker --otlp URL`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from goalrunner.core import VERSION
from goalrunner.core.errors import GoalError
from goalrunner.fleet.database import Connection, Database

_INTERVAL = 15_000
"""Milliseconds between two exports."""
_TIMEOUT = 5
"""Seconds for one export, and for the last one."""
_NAME = "goalrunner.fleet"

_RUNS = """\
SELECT queue, CASE WHEN state = 'ended' THEN status ELSE state END AS word,
    count(*) AS number
FROM goal_fleet_runs GROUP BY 1, 2
"""
_WORKERS = """\
SELECT count(*) AS number, coalesce(sum(jobs), 0) AS jobs
FROM goal_fleet_workers WHERE stopped_at IS NULL
"""


def otlp_reader(url: str) -> MetricReader:
    """Return a reader that sends metrics to a collector now and then."""
    exporter = OTLPMetricExporter(f"{url.rstrip('/')}/v1/metrics", timeout=_TIMEOUT)
    return PeriodicExportingMetricReader(exporter, _INTERVAL)


class FleetMetrics:
    """Gauges of the fleet, each measured when it is exported.

    Every worker reports the same figures of the fleet, and its own runs: a dashboard
    takes the newest value.
    """

    def __init__(
        self,
        reader: MetricReader,
        database: Database,
        worker: str,
        at_work: Callable[[], int],
    ) -> None:
        """`at_work` returns how many runs the worker has."""
        self._database = database
        self._at_work = at_work
        resource = Resource.create(
            {"service.name": _NAME, "service.instance.id": worker}
        )
        self._provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = self._provider.get_meter(_NAME, VERSION)
        gauges: Mapping[str, tuple[Callable[[CallbackOptions], Any], str, str]] = {
            "goal.fleet.runs": (
                self._runs,
                "{run}",
                "Runs by queue, and by what they do or how they ended.",
            ),
            "goal.fleet.workers": (self._workers, "{worker}", "Workers at work."),
            "goal.fleet.jobs": (
                self._jobs,
                "{run}",
                "Runs that all workers can have at once.",
            ),
            "goal.fleet.worker.runs": (
                self._own_runs,
                "{run}",
                "Runs that this worker has.",
            ),
        }
        for name, (callback, unit, description) in gauges.items():
            meter.create_observable_gauge(name, [callback], unit, description)

    def close(self) -> None:
        """Send the last values, within seconds."""
        self._provider.shutdown(_TIMEOUT * 1000)
        self._database.close()

    def _rows(self, statement: str) -> list[dict[str, Any]]:
        def ask(connection: Connection) -> list[dict[str, Any]]:
            return connection.execute(statement.encode()).fetchall()

        try:
            return self._database.call(ask)
        except GoalError:
            # Without the database there is nothing to measure.
            return []

    def _runs(self, _: CallbackOptions) -> Iterable[Observation]:
        for row in self._rows(_RUNS):
            labels = {"goal.queue": row["queue"], "goal.state": row["word"]}
            yield Observation(row["number"], labels)

    def _workers(self, _: CallbackOptions) -> Iterable[Observation]:
        for row in self._rows(_WORKERS):
            yield Observation(row["number"])

    def _jobs(self, _: CallbackOptions) -> Iterable[Observation]:
        for row in self._rows(_WORKERS):
            yield Observation(row["jobs"])

    def _own_runs(self, _: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self._at_work())
