"""The folder in which whole runs work."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return an empty workspace; what lies beside it belongs to the test too."""
    folder = tmp_path / "place"
    folder.mkdir()
    return folder
