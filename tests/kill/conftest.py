"""A place for a run that is killed: in memory where there is a folder of that kind, since every event is flushed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.forking import Forks, forks
from tests.support.killed_run import Place, prepare

MEMORY = Path("/dev/shm")


@pytest.fixture(name="forks", scope="session")
def shared_forks() -> Forks:
    """Return the program that all runs of a worker are forks of."""
    return forks()


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder of the test's own."""
    where = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="goal-kill-", dir=where) as folder:
        yield Path(folder).resolve()


@pytest.fixture
def place(root: Path, forks: Forks) -> Place:
    """The goal, ready to be run."""
    return prepare(root, forks)
