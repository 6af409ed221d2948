"""A runner that is killed: its children die with it, and its watchdog does not outlive it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.processes import children, entry
from goalrunner.system.watchdog import Watchdog

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

RUNNER = """
import asyncio, os, sys
from pathlib import Path
from goalrunner.system.launcher import ProcessLauncher

launch = ProcessLauncher().launch(
    ["sh", "-c", sys.argv[1]], cwd=Path.cwd(), env=dict(os.environ), output=Path("output")
)
asyncio.run(launch)
"""


def living(pid: int) -> bool:
    one = entry(pid)
    return one is not None and one.living


def until(condition: object, seconds: float = 30.0) -> None:
    """Wait for it; `condition` is a callable."""
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.01)


def watchdogs_of(pid: int) -> list[int]:
    """Shells that are children of a process and lead a session of their own, without a mark of its."""
    lines = {
        one: Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")
        for one in children(pid)
        if living(one)
    }
    return [one for one, words in lines.items() if b"goal-watchdog" in words]


def new_watchdog(pid: int, before: Collection[int] = ()) -> int:
    """The only one of a process that was not there before. While a program takes another's place its command line is
    empty for a moment, on a busy machine for a long one."""
    until(lambda: set(watchdogs_of(pid)) - set(before))
    (one,) = set(watchdogs_of(pid)) - set(before)
    return one


def runner(folder: Path, command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, command],
        cwd=folder,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("echo $$ > pid; exec sleep 1000", id="leader"),
        pytest.param(
            "sleep 1000 & echo $! > pid; wait", id="background", marks=pytest.mark.slow
        ),
        pytest.param(
            "setsid sh -c 'echo $$ > pid; exec sleep 1000' & wait",
            id="own session",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "(setsid sh -c 'echo $$ > pid; exec sleep 1000' &) ; sleep 1000",
            id="two forks",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "(env -i setsid sh -c 'echo $$ > pid; exec sleep 1000' &) ; sleep 1000",
            id="no environment",
        ),
        pytest.param(
            "trap '' TERM HUP; sh -c 'trap \"\" TERM; echo $$ > pid; exec sleep 1000'",
            id="deaf",
        ),
    ],
)
def test_children_die_with_a_runner_that_is_killed(
    tmp_path: Path, command: str
) -> None:
    with runner(tmp_path, command) as process:
        pid = tmp_path / "pid"
        until(lambda: pid.exists() and pid.read_text().endswith("\n"), 20)
        child = int(pid.read_text())
        watchdog = new_watchdog(process.pid)
        assert living(child)
        process.kill()
        process.wait()
        # No process holds its output open, so a reader sees the end at once.
        assert process.stdout is not None
        assert process.stdout.read() == b""
        until(lambda: not living(child))
        until(lambda: not living(watchdog))


@pytest.mark.slow
def test_another_runner_and_its_children_are_left_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    command = "setsid sh -c 'echo $$ > pid; exec sleep 1000' & wait"
    with (
        runner(tmp_path / "one", command) as first,
        runner(tmp_path / "two", command) as second,
    ):
        pids = [tmp_path / name / "pid" for name in ("one", "two")]
        until(
            lambda: all(
                pid.exists() and pid.read_text().endswith("\n") for pid in pids
            ),
            20,
        )
        watchdog = new_watchdog(first.pid)
        first.kill()
        first.wait()
        until(lambda: not living(watchdog))
        assert not living(int(pids[0].read_text()))
        assert living(int(pids[1].read_text()))
        assert second.poll() is None
        second.kill()
        second.wait()
        until(lambda: not living(int(pids[1].read_text())))


async def launched(
    launcher: ProcessLauncher, folder: Path, command: str
) -> tuple[str, ...]:
    env = {"PATH": os.environ["PATH"]}
    done = await launcher.launch(
        ["sh", "-c", command], cwd=folder, env=env, output=folder / "output"
    )
    return done.survivors


async def test_one_watchdog_for_all_launches_which_no_sweep_ends_and_close_does(
    tmp_path: Path,
) -> None:
    before = watchdogs_of(os.getpid())
    launcher = ProcessLauncher()
    assert set(watchdogs_of(os.getpid())) <= set(before)
    survivors = await launched(launcher, tmp_path, "setsid sleep 1000 & sleep 0.05")
    watchdog = new_watchdog(os.getpid(), before)
    await launched(launcher, tmp_path, "true")
    assert survivors == ("sleep",)
    assert set(watchdogs_of(os.getpid())) - set(before) == {watchdog}
    launcher.close()
    launcher.close()
    assert entry(watchdog) is None


async def test_a_watchdog_that_is_killed_is_replaced(tmp_path: Path) -> None:
    launcher = ProcessLauncher()
    before = watchdogs_of(os.getpid())
    await launched(launcher, tmp_path, "true")
    watchdog = new_watchdog(os.getpid(), before)
    os.kill(watchdog, signal.SIGTERM)
    await asyncio.sleep(0.05)
    assert living(watchdog)
    os.kill(watchdog, signal.SIGKILL)
    until(lambda: not living(watchdog))
    task = asyncio.create_task(
        launched(launcher, tmp_path, "echo $$ > pid; sleep 1000")
    )
    while not (tmp_path / "pid").exists():
        await asyncio.sleep(0.01)
    other = new_watchdog(os.getpid(), before)
    assert other != watchdog
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    launcher.close()
    assert not living(other)


async def test_a_launcher_that_is_dropped_leaves_no_watchdog(tmp_path: Path) -> None:
    before = watchdogs_of(os.getpid())
    await launched(ProcessLauncher(), tmp_path, "true")
    until(lambda: set(watchdogs_of(os.getpid())) <= set(before))


def test_two_launchers_never_have_the_same_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered: list[list[int]] = []

    def choice(free: list[int]) -> int:
        offered.append(free)
        return free[0]

    monkeypatch.setattr("goalrunner.system.launch_tags.secrets.choice", choice)
    launchers = [Watchdog(), Watchdog()]
    try:
        for one in launchers:
            one.watch()
        first, second = ((one.next_limit() - 1) // 1_000 for one in launchers)
        assert first != second
        assert offered[0][0] not in offered[1]
    finally:
        for one in launchers:
            one.close()
