"""`goal apply` killed while it writes, and while its check runs."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from goalrunner.checking.overlay import probe
from tests.copies.test_apply_command import finish
from tests.support.command_line import GOAL, environment
from tests.support.workspaces import git, listing, write

_MANY = "for n in $(seq 300); do echo $n > f$n; done; printf '2 * 3\\n' > mul.txt"


class Applying:
    """A finished run, and `goal apply` of it as a process."""

    def __init__(self, root: Path, checks: str, agent: str) -> None:
        self.workspace, self.home = root / "ws", root / "home"
        self.run = asyncio.run(finish(root, checks, agent))

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*GOAL, "apply", self.run, *arguments],
            cwd=self.workspace,
            env=environment(GOAL_HOME=str(self.home)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def journals(self) -> list[Path]:
        """What an apply leaves while it writes."""
        return list((self.home / "applies").glob("*.json"))


def _killed_while_it_writes(root: Path, seed: int, kills: int) -> None:
    place = Applying(root, 'validator = "test -e f300"', _MANY)
    before = listing(place.workspace)
    assert place.start("--no-check").wait(100) == 0
    after = listing(place.workspace)
    moments = random.Random(seed)
    for _ in range(kills):
        git(place.workspace, "checkout", "-qf", ".")
        git(place.workspace, "clean", "-fdq")
        process = place.start("--no-check")
        while process.poll() is None and not place.journals:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.1))
        process.kill()
        process.wait()
        if not place.journals:
            assert listing(place.workspace) in (before, after)
        assert place.start("--no-check").wait(100) == 0
        assert listing(place.workspace) == after
        assert not place.journals


def _processes(root: Path) -> list[str]:
    """The command lines of the processes that name a folder."""
    lines = [
        " ".join(item.info["cmdline"] or ())
        for item in psutil.process_iter(["cmdline"])
    ]
    return [line for line in lines if str(root) in line]


@pytest.mark.slow
def test_an_apply_that_is_killed_while_it_writes_is_undone_and_done(
    tmp_path: Path,
) -> None:
    _killed_while_it_writes(tmp_path, seed=1, kills=3)


@pytest.mark.kills
@pytest.mark.parametrize("seed", range(20))
def test_an_apply_is_killed_forty_times(tmp_path: Path, seed: int) -> None:
    # Each kill takes two applies, and on a busy machine more than ten seconds.
    _killed_while_it_writes(tmp_path, seed, kills=2)


@pytest.mark.slow
def test_the_check_of_a_killed_apply_ends(tmp_path: Path) -> None:
    began = tmp_path / "began"
    check = f"test ! -e moved || {{ echo > {began}; sleep 60; }}"
    place = Applying(tmp_path, f'validator = "{check}"', _MANY)
    if why := probe(place.workspace, tmp_path / "scratch"):
        pytest.skip(f"no overlay works here: {why}")
    write(place.workspace, {"moved": "x\n"})
    before = listing(place.workspace)
    process = place.start()
    deadline = time.monotonic() + 60
    while not began.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while _processes(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _processes(tmp_path)
    assert listing(place.workspace) == before
    assert place.start("--no-check").wait(100) == 0
    assert (place.workspace / "f300").exists()
