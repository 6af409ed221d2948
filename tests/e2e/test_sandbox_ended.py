"""Processes in a sandbox end with their run: five seconds after `goal` was killed, or its deadline, none is left."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from goalrunner.system import processes
from tests.support.acp_bench import PROGRAM
from tests.support.command_line import start
from tests.support.recordings import agent, recording, shell
from tests.support.sandboxes import needs_sandbox

pytestmark = needs_sandbox


class Sleepers:
    """A line that starts three processes, two of them in sessions of their own, one without the mark of the run."""

    def __init__(self) -> None:
        self.words = (
            f"sleep 4{secrets.randbelow(10**6):06}.{secrets.randbelow(10**6):06}"
        )
        self.line = f"setsid {self.words} & env -i setsid {self.words} & {self.words}"

    @property
    def alive(self) -> int:
        """How many live; a zombie has no words."""
        lines = [
            line.replace("\0", " ").strip() for _, line in processes.command_lines()
        ]
        return lines.count(self.words)

    def until(self, number: int, seconds: float) -> None:
        """Wait until so many live."""
        end = time.monotonic() + seconds
        while (alive := self.alive) != number:
            assert time.monotonic() < end, f"{alive} live and not {number}"
            time.sleep(0.02)


def _builtin(place: Path, line: str) -> str:
    return f'model = "{recording(place.parent / "r.jsonl", agent("", shell(line)), agent("done"))}"'


def _command(place: Path, line: str) -> str:
    return f'[agent]\nuse = "command"\ncommand = ["sh", "-c", "{line}"]'


def _acp(place: Path, line: str) -> str:
    shutil.copy(PROGRAM, place / "agent.py")
    (place / "script.json").write_text(
        json.dumps({"prompts": [[["shell", line], ["say", "done"]]]})
    )
    return f'[agent]\nuse = "acp"\ncommand = ["{sys.executable}", "agent.py", "script.json"]'


def ended(path: Path, place: Path, sleepers: Sleepers, end: str) -> None:
    """Start the run, wait for the three processes, end it; none is left."""
    process = start("run", path, cwd=place)
    try:
        sleepers.until(3, 20)
        if end == "killed":
            process.kill()
        else:
            process.wait(20)
        sleepers.until(0, 5)
    finally:
        process.kill()
        process.communicate(timeout=10)


def goal_file(place: Path, agent: str, validator: str, end: str) -> Path:
    path = place.parent / "goal.toml"
    limit = 'timeout = "6s"\n' if end == "deadline" else ""
    path.write_text(
        f'objective = "make done"\nvalidator = "{validator}"\nmax_iterations = 1\n{limit}{agent}\n'
        f'[workspace]\npath = "{place}"\nsandbox = "bwrap"\n'
    )
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@pytest.mark.parametrize(
    ("driven", "end"),
    [(_builtin, "killed"), (_command, "killed"), (_acp, "killed"), (_acp, "deadline")],
    ids=["built-in-killed", "command-killed", "acp-killed", "acp-deadline"],
)
def test_no_process_of_an_agent_in_a_sandbox_outlives_the_run(
    place: Path, own_home: Path, driven: Callable[[Path, str], str], end: str
) -> None:
    sleepers = Sleepers()
    ended(
        goal_file(place, driven(place, sleepers.line), "test -e done", end),
        place,
        sleepers,
        end,
    )


@pytest.mark.parametrize("end", ["killed", "deadline"])
def test_no_process_of_a_check_in_a_sandbox_outlives_the_run(
    place: Path, own_home: Path, end: str
) -> None:
    sleepers = Sleepers()
    ended(
        goal_file(place, _builtin(place, "true"), sleepers.line, end),
        place,
        sleepers,
        end,
    )
