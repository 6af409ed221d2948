"""The workspace of a case, and the table at the end of a test run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.honest.report import print_runs
from tests.support.arena import Arena


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    """A workspace, a home and a machine."""
    return Arena(tmp_path)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table. This file is loaded early enough if the command line names this folder."""
    print_runs(terminalreporter)
