from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra `telemetry` is missing")

from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from goalrunner.fleet.database import Database
from goalrunner.fleet.fleet_metrics import FleetMetrics
from tests.support.fleet_rows import submit, taken, worker


def values(reader: InMemoryMetricReader) -> dict[str, list[tuple[Any, dict[str, Any]]]]:
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                points: Any = metric.data.data_points
                found[metric.name] = [
                    (point.value, dict(point.attributes)) for point in points
                ]
    return found


def test_queues_and_workers_are_gauges(database: Database, database_url: str) -> None:
    for number in range(3):
        submit(database, f"r{number}")
    taken(database, worker(database, "a"), "r0")
    reader = InMemoryMetricReader()
    metrics = FleetMetrics(reader, Database(database_url), "a", lambda: 1)
    found = values(reader)
    metrics.close()
    runs = {labels["goal.state"]: value for value, labels in found["goal.fleet.runs"]}
    assert runs == {"running": 1, "queued": 2}
    assert found["goal.fleet.workers"] == [(1, {})]
    assert found["goal.fleet.jobs"] == [(2, {})]
    assert found["goal.fleet.worker.runs"] == [(1, {})]


def test_without_a_database_only_the_own_runs_are_measured() -> None:
    reader = InMemoryMetricReader()
    nowhere = Database("postgresql://127.0.0.1:1/fleet", timeout=1)
    metrics = FleetMetrics(reader, nowhere, "a", lambda: 2)
    found = values(reader)
    metrics.close()
    assert found["goal.fleet.worker.runs"] == [(2, {})]
    assert found.get("goal.fleet.runs", []) == []
