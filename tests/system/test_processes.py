"""Ending processes on a system that does not give orphans a new parent, such as macOS."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from goalrunner.system import processes
from goalrunner.system.child import started
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.watchdog import Watchdog

MOVED = """
import os, subprocess, sys
inner = "import os, subprocess, sys; subprocess.Popen(['sleep', '1000'], start_new_session=True); print(os.getpid()); " \
        "sys.stdout.flush(); os.execvp('sleep', ['sleep', '1000'])"
made = [subprocess.Popen([sys.executable, "-c", inner], start_new_session=True, stdout=subprocess.PIPE)]
made += [subprocess.Popen(["sleep", "1000"], process_group=0), subprocess.Popen(["sleep", "1000"])]
made[0].stdout.readline()
open("pids.new", "w").write(" ".join(str(one.pid) for one in made))
os.rename("pids.new", "pids")
made[0].wait()
"""


@pytest.fixture(autouse=True)
def without_adoption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goalrunner.system.child.adopt_orphans", lambda: False)


def alive(pid: int) -> bool:
    process = processes.entry(pid)
    return process is not None and process.living


async def test_processes_in_other_groups_and_sessions_end_with_their_parent(
    tmp_path: Path,
) -> None:
    launched = asyncio.ensure_future(
        ProcessLauncher(grace=0.3).launch(
            [sys.executable, "-c", MOVED],
            cwd=tmp_path,
            env=dict(os.environ),
            output=tmp_path / "out",
        )
    )
    while not (tmp_path / "pids").exists():
        await asyncio.sleep(0.01)
    made = [int(word) for word in (tmp_path / "pids").read_text().split()]
    (inner,) = processes.children(made[0])
    launched.cancel()
    with pytest.raises(asyncio.CancelledError):
        await launched
    assert [pid for pid in (*made, inner) if alive(pid)] == []


async def test_a_process_that_outlives_its_parent_is_ended_and_named(
    tmp_path: Path,
) -> None:
    done = await ProcessLauncher(grace=0.3).launch(
        ["sh", "-c", "sleep 1000 & echo $!"],
        cwd=tmp_path,
        env=dict(os.environ),
        output=tmp_path / "out",
    )
    assert (done.exit_code, done.survivors) == (0, ("sleep",))
    assert not alive(int((tmp_path / "out").read_text()))


async def test_a_process_that_is_only_stopped_has_not_ended(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as output, Path(os.devnull).open("rb") as source:
        streams = (source.fileno(), output.fileno(), output.fileno())
        process = started(
            ["sleep", "1000"],
            cwd=tmp_path,
            env=dict(os.environ),
            streams=streams,
            watchdog=Watchdog(),
            grace=0.3,
        )
        async with process as child:
            child.signal_group(signal.SIGSTOP)
            while (
                Path(f"/proc/{child.pid}/stat")
                .read_text()
                .rpartition(")")[2]
                .split()[0]
                != "T"
            ):
                pass
            assert not child.ended()
            assert child.status is None
            child.signal_group(signal.SIGKILL)
            while not child.ended():
                pass
            assert child.status == -signal.SIGKILL


def test_the_descendants_of_a_process_are_found_whatever_its_name_is(
    tmp_path: Path,
) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen(
        ["/bin/sh", "-c", '"$0" 1000 & echo; wait', program], stdout=subprocess.PIPE
    ) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        [inner] = processes.children(shell.pid)
        below = processes.children(os.getpid(), recursive=True)
        os.kill(inner, signal.SIGKILL)
    assert below.index(shell.pid) < below.index(inner)
    assert shell.pid in below
    assert processes.children(inner) == []
