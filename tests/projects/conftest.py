"""Prints the table of the projects at the end of a test run."""

from __future__ import annotations

from typing import Any

from tests.projects.report import print_projects


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table. This file is loaded early enough if the command line names this folder."""
    print_projects(terminalreporter)
