"""The workspace of an attack or an honest run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.arena import Arena


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    """A workspace, a home and a machine."""
    return Arena(tmp_path)
