"""Fixtures of the tests of `audits`: an empty current folder, and a finished run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.finished_run import FinishedRun, finish_run


@pytest.fixture(autouse=True)
def own_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current folder is empty."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="package")
def kept_run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """Return a finished run that no test changes."""
    return finish_run(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def run(kept_run: FinishedRun, own_home: Path) -> FinishedRun:
    """Return a copy of the finished run in the home of this test."""
    return kept_run.copied(own_home)
