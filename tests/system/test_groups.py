"""Ending everybody where no /proc shows who there is, as on macOS: here it is only not looked at."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from goalrunner.system.child import start
from goalrunner.system.launcher import ProcessLauncher
from goalrunner.system.process_table import Mark
from goalrunner.system.termination import Ending, groups_below

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(not Path("/bin/ps").exists(), reason="there is no ps here"),
]

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
def no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goalrunner.system.launcher.Ending", functools.partial(Ending, by_table=False))
    # Here nobody but the test reaps who is dead, and without a table the dead look alive.
    monkeypatch.setattr("goalrunner.system.termination.PATIENCE", 0.2)
    for name in ("entry", "everybody", "children"):
        monkeypatch.delattr(f"goalrunner.system.process_table.{name}")


def alive(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def pids(folder: Path) -> list[int]:
    while not (folder / "pids").exists():
        await asyncio.sleep(0.01)
    return [int(word) for word in (folder / "pids").read_text().split()]


async def test_who_moved_into_another_group_is_ended_with_the_leader(tmp_path: Path) -> None:
    launched = asyncio.ensure_future(
        ProcessLauncher(grace=0.3).launch(
            [sys.executable, "-c", MOVED], cwd=tmp_path, env=dict(os.environ), output=tmp_path / "out"
        )
    )
    made = await pids(tmp_path)
    below = groups_below(os.getpgid(made[2]))
    assert {made[0], made[1]} < below  # and that of the one who moved once more
    assert len(below) == 3
    launched.cancel()
    with pytest.raises(asyncio.CancelledError):
        await launched
    for pid in (*made, *below):
        while alive(pid):
            await asyncio.sleep(0.01)


async def test_who_stays_in_the_leaders_group_is_ended_after_it(tmp_path: Path) -> None:
    done = await ProcessLauncher(grace=0.3).launch(
        ["sh", "-c", "sleep 1000 & echo $!"], cwd=tmp_path, env=dict(os.environ), output=tmp_path / "out"
    )
    assert (done.exit_code, done.survivors) == (0, ("a process of its group",))
    while alive(int((tmp_path / "out").read_text())):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("ps", [("/bin/false",), ("/nowhere/ps",), ("/bin/echo", "1 2"), ("/bin/echo", "a b c")])
async def test_a_ps_that_does_not_say_is_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ps: tuple[str, ...]
) -> None:
    monkeypatch.setattr("goalrunner.system.termination._PS", ps)
    done = await ProcessLauncher(grace=0.3).launch(
        ["sleep", "1000"], cwd=tmp_path, env=dict(os.environ), output=tmp_path / "out", timeout=0.1
    )
    assert done.timed_out


def test_a_process_that_is_only_stopped_has_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS tells of it although it was asked for ends alone."""
    with (tmp_path / "out").open("wb") as output, Path(os.devnull).open("rb") as source:
        leader = start(
            ["sleep", "1000"],
            cwd=tmp_path,
            env=dict(os.environ),
            mark=Mark(),
            stdin=source.fileno(),
            output=output.fileno(),
        )
    with monkeypatch.context() as pretended:
        told = SimpleNamespace(si_status=signal.SIGSTOP, si_code=os.CLD_STOPPED)
        pretended.setattr(os, "waitid", lambda *_: told)
        assert not leader.ended()
        assert leader.status is None
    leader.signal_group(signal.SIGKILL)
    while not leader.ended():
        pass
    assert leader.reap() == -signal.SIGKILL
