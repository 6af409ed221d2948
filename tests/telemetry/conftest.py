"""A goal with telemetry, and a collector in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.collector import Collected, collector
from tests.support.durable_goal import Goal
from tests.support.forking import forks


@pytest.fixture
def collected(tmp_path: Path) -> Iterator[Collected]:
    """What a collector got."""
    with collector(tmp_path / "collected.jsonl") as running:
        yield running


@pytest.fixture
def goal(tmp_path: Path, own_home: Path) -> Goal:
    """Writes goal files and runs them."""
    (tmp_path / "work").mkdir()
    return Goal(tmp_path, own_home, forks())
