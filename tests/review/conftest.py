"""One real run for all tests that only read its records; each damages a copy of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.finished_run import FinishedRun, finish_run


@pytest.fixture(scope="package")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """The run itself; nobody changes it."""
    return finish_run(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def run(kept_run: FinishedRun, own_home: Path) -> FinishedRun:
    """Its records in the home of this test."""
    return kept_run.copied(own_home)
