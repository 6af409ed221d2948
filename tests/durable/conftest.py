"""A folder for a goal, and the program that runs of it are forks of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Ended
from tests.support.durable_goal import Goal
from tests.support.forking import Forks, forks

__all__ = ["Ended"]


@pytest.fixture(name="forks", scope="session")
def shared_forks() -> Forks:
    """Return the program that all runs of a worker are forks of."""
    return forks()


@pytest.fixture
def goal(tmp_path: Path, own_home: Path, forks: Forks) -> Goal:
    """Writes goal files and runs them."""
    (tmp_path / "work").mkdir()
    return Goal(tmp_path, own_home, forks)
