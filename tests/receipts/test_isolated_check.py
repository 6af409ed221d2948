"""The copy in which a change is verified: gone after an end of any kind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.command_line import start
from tests.support.workspaces import git, make_repository, write

pytestmark = pytest.mark.slow


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, for at most a minute."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def processes_with(word: str) -> list[int]:
    """The processes whose command line has a word."""
    pids: list[int] = []
    for process in psutil.process_iter(["cmdline"]):
        if any(word in part for part in process.info["cmdline"] or ()):
            pids.append(process.pid)
    return pids


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_no_copy_and_no_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    root = make_repository(tmp_path / "ws", {"a": "1\n"})
    git(root, "switch", "-q", "-c", "change")
    write(root, {"a": "2\n"})
    git(root, "commit", "-q", "-a", "-m", "two")
    home, began = tmp_path / "home", tmp_path / "began"
    seconds = f"600.{os.getpid()}"
    process = start(
        "receipt", "--validator", f"touch {began}; sleep {seconds}",
        cwd=root, env={"GOAL_HOME": str(home)},
    )  # fmt: skip
    until(began.exists)

    process.send_signal(number)
    process.communicate(timeout=60)

    assert process.returncode == 128 + number
    assert list((home / "runs").iterdir()) == []
    until(lambda: not processes_with(seconds))
    assert git(root, "status", "--porcelain") == ""
