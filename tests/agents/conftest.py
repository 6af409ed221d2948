"""The parser `plain` is registered for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agents import MemoryRecorder
from tests.support.command_line import WITH_PLAIN


@pytest.fixture(autouse=True)
def _plain_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(WITH_PLAIN["PYTHONPATH"])


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return an empty workspace."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def recorder(tmp_path: Path) -> MemoryRecorder:
    """Return a recorder whose files are beside the workspace."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return MemoryRecorder(folder)
