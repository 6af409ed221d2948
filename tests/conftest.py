"""For every test: no real provider, no key of the machine's owner, no run in the owner's home."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.support.tables import print_tables

# Assertions there say what they compared, whoever imports them first.
pytest.register_assert_rewrite("tests.conformance.checks", "tests.conformance.place")

_LOCAL = {"127.0.0.1", "localhost", "::1", ""}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Here, not in the folder of those tests: with several processes the one that prints loads this file alone."""
    print_tables(terminalreporter)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more worker than there are processors: a fifth of the time a test waits for a process that it started."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """GOAL_HOME for this test alone, outside its tmp_path (which is often the workspace)."""
    home = tmp_path_factory.mktemp("goal-home")
    monkeypatch.setenv("GOAL_HOME", str(home))
    for name in (
        "GOAL_AGENT",
        "GOAL_MODEL",
        "GOAL_JUDGE",
        "LLM_MODEL",
        "LLM_API_KEY",
        "LLM_BASE_URL",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-config"))
    return home


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only loopback may be connected to from the test process."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in _LOCAL:
            raise AssertionError(f"a test tried to reach {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
