"""In-place checks whose runner is killed: the watchdog, or the next command, undoes them to the byte."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from goalrunner.checking.journal import checks_folder
from goalrunner.checking.undo import undo_checks
from goalrunner.system import processes
from tests.support.in_place import (
    check,
    make_workspace,
    pending,
    picture,
    status,
    times,
)

ROOT = Path(__file__).parents[2]
LONGEST = 0.42
"""Seconds within which a runner is killed; the whole check takes about that long."""


@dataclass
class Scene:
    """A workspace, and what it looked like before the first check."""

    workspace: Path
    home: Path

    def __post_init__(self) -> None:
        self.before = self.look()

    def look(self) -> tuple[object, ...]:
        return picture(self.workspace), times(self.workspace), status(self.workspace)

    def runner(self) -> subprocess.Popen[bytes]:
        """A runner that begins its check as soon as it gets a line."""
        program = subprocess.Popen(
            [sys.executable, "-m", "tests.support.in_place", self.workspace, self.home],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        return program

    def killed_after(self, seconds: float, runner: subprocess.Popen[bytes]) -> None:
        assert runner.stdin is not None
        runner.stdin.write(b"\n")
        runner.stdin.flush()
        time.sleep(seconds)
        end(runner)

    def journals(self) -> list[Path]:
        return list(checks_folder(self.home).glob("*/journal"))

    def await_journals(self, present: bool) -> None:
        deadline = time.monotonic() + 20
        while bool(self.journals()) != present and time.monotonic() < deadline:
            time.sleep(0.005)
        assert bool(self.journals()) == present

    def watchdogs(self) -> list[int]:
        """The processes that undo the check if its runner ends; a shell at first."""
        home = os.path.realpath(self.home)
        lines = processes.command_lines()
        return [
            pid
            for pid, line in lines
            if "goalrunner.checking.undo" in line and home in line
        ]


def end(runner: subprocess.Popen[bytes]) -> None:
    runner.kill()
    runner.wait()
    assert runner.stdin is not None
    assert runner.stdout is not None
    runner.stdin.close()
    runner.stdout.close()


@pytest.fixture
def scene(root: Path) -> Scene:
    workspace = make_workspace(root / "workspace")
    (root / "home").mkdir()
    return Scene(workspace, root / "home")


@pytest.mark.timeout(300)
def test_a_check_that_runs_to_its_end_is_undone(scene: Scene) -> None:
    assert (
        asyncio.run(
            check(
                scene.workspace, scene.home, "cat tests/test_a.py", scene.home / "out"
            )
        )
        == 0
    )
    assert "original\n" in (scene.home / "out").read_text()
    assert scene.look() == scene.before


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(2))
def test_the_watchdog_undoes_it_at_any_moment(scene: Scene, seed: int) -> None:
    moments = random.Random(seed)
    begun, reported = 0, list[str]()
    for _ in range(10):
        scene.killed_after(moments.uniform(0, LONGEST), scene.runner())
        begun += bool(scene.journals())
        deadline = time.monotonic() + 20
        while (
            scene.journals() and not pending(scene.home) and time.monotonic() < deadline
        ):
            time.sleep(0.005)
        # Killed before the watchdog started, so before the first change: the journal alone is left.
        assert scene.look() == scene.before
        reported += undo_checks(scene.workspace, scene.home)
        assert not scene.journals()
        time.sleep(0.03)
        assert scene.look() == scene.before, "a process of the check still writes"
    assert begun > 3
    assert sum(line.endswith("was undone.") for line in reported) > 3


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(100, 102))
def test_the_next_command_undoes_it_if_the_watchdog_was_killed_too(
    scene: Scene, seed: int
) -> None:
    moments = random.Random(seed)
    for _ in range(5):
        runner = scene.runner()
        scene.killed_after(moments.uniform(0.1, LONGEST), runner)
        # The watchdog may be a shell still, or at work already.
        time.sleep(moments.uniform(0, 0.4))
        for pid in scene.watchdogs():
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
        undo_checks(scene.workspace, scene.home)
        assert not scene.journals()
        assert scene.look() == scene.before
        assert undo_checks(scene.workspace, scene.home) == ()


@pytest.mark.timeout(300)
def test_an_undo_that_is_killed_again_and_again_ends_in_the_same_state(
    scene: Scene,
) -> None:
    moments = random.Random(7)
    scene.killed_after(0.3, scene.runner())
    for _ in range(6):
        program = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, scene.workspace, scene.home],
            cwd=ROOT,
            start_new_session=True,
        )
        time.sleep(moments.uniform(0.2, 0.6))
        program.kill()
        program.wait()
        for pid in scene.watchdogs():
            os.kill(pid, signal.SIGKILL)
    undo_checks(scene.workspace, scene.home)
    assert scene.look() == scene.before


SCRIPT = """
import sys
sys.path.insert(0, "src")
from pathlib import Path
from goalrunner.checking.undo import undo_checks
undo_checks(Path(sys.argv[1]), Path(sys.argv[2]))
"""


def test_a_check_of_a_living_runner_is_left_alone(scene: Scene) -> None:
    runner = scene.runner()
    assert runner.stdin is not None
    runner.stdin.write(b"\n")
    runner.stdin.flush()
    scene.await_journals(present=True)
    while (
        scene.journals() and not scene.watchdogs()
    ):  # until it runs, the journal alone would be left
        time.sleep(0.001)
    os.kill(runner.pid, signal.SIGSTOP)
    try:
        if scene.journals():
            (line,) = undo_checks(scene.workspace, scene.home, patience=0)
            assert f"process {runner.pid}" in line
            assert pending(scene.home) == ()
            assert scene.journals()
    finally:
        end(runner)
    scene.await_journals(present=False)
    assert scene.look() == scene.before
