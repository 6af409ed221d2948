"""A run killed at random moments, many times in a row, and resumed; by signals, and while another one works on it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.command_line import GOAL, environment
from tests.support.killed_run import Place, same_end, without_a_result

LONGEST = 0.9
"""Seconds within which a run is killed; it takes about half of them if it is not interrupted."""


def killed_at_random(place: Place, seed: int, lives: int) -> None:
    moments = random.Random(seed)
    ended = place.goal(
        "run", "goal.toml", kill=("seconds", moments.uniform(0.02, LONGEST))
    )
    for _ in range(lives - 1):
        ended = place.goal("resume", kill=("seconds", moments.uniform(0.02, LONGEST)))
    last = place.goal("resume") if place.folder else None
    if last is None or "goal run starts a run" in last.err:
        assert not place.effects.exists()
        return
    if "is already complete" in last.err:
        assert (last.code, place.outcome()["status"]) == (2, "complete"), (ended, last)
        return
    same_end(place, last, kills=lives)


@pytest.mark.parametrize("seed", range(9))
def test_killed_at_any_moment_and_resumed_it_ends_the_same(
    place: Place, seed: int
) -> None:
    killed_at_random(place, seed, 1 + seed % 3)


@pytest.mark.kills
@pytest.mark.parametrize("seed", range(1_000, 1_200))
def test_killed_two_hundred_times(place: Place, seed: int) -> None:
    killed_at_random(place, seed, 1 + seed % 5)


def begun(place: Place, *arguments: str, event: str) -> subprocess.Popen[bytes]:
    """A real `goal` that has written an event of that type."""
    process = subprocess.Popen(
        [*GOAL, *arguments],
        cwd=place.workspace,
        env=environment(GOAL_HOME=str(place.home)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        log = place.folder / "events.jsonl" if place.folder else None
        if log is not None and log.exists() and f'"{event}"' in log.read_text():
            return process
        time.sleep(0.005)
    raise AssertionError(f"no {event} came")


def slow(place: Place, name: str, seconds: int) -> None:
    """The first command of the recording takes its time."""
    path = place.root / "models.jsonl"
    path.write_text(
        path.read_text().replace(f"echo {name} >>", f"sleep {seconds}; echo {name} >>")
    )


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_a_run_that_is_interrupted_goes_on(
    place: Place, number: signal.Signals, code: int
) -> None:
    slow(place, "one", 1)
    without_a_result(place)
    process = begun(place, "run", "goal.toml", event="tool_called")
    process.send_signal(number)
    assert process.wait(20) == code
    assert place.folder is not None
    assert place.outcome()["stop_reason"] == "interrupted"
    assert not place.effects.exists()
    same_end(place, place.goal("resume"), results=2)
    assert (
        "interrupted; its effect is unknown"
        in (place.folder / "transcript.jsonl").read_text()
    )


def test_a_run_is_worked_on_by_one_process(place: Place) -> None:
    slow(place, "one", 3)
    process = begun(place, "run", "goal.toml", event="tool_called")
    second = place.goal("resume")
    assert second.code == 4
    assert f"is active (process {process.pid} on" in second.err
    process.wait(30)
    assert process.returncode == 0
    assert place.effects.read_text().split() == ["one", "two", "three"]


def test_what_a_killed_runner_had_started_does_not_go_on_behind_the_next_ones_back(
    place: Place,
) -> None:
    path = place.root / "models.jsonl"
    command = f"(setsid sh -c 'sleep 2; echo late >> {place.effects}' &); sleep 3; echo one >>"
    path.write_text(path.read_text().replace("echo one >>", command))
    process = begun(place, "run", "goal.toml", event="tool_called")
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    same_end(place, place.goal("resume"))
    time.sleep(2)
    assert place.effects.read_text().split() == ["two", "three"]


@pytest.mark.parametrize("command", ["git clean -fdxq", "rm -rf -- * .[!.]*"])
def test_an_agent_that_empties_its_folder_touches_no_run(
    place: Place, command: str
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=place.workspace, check=True)
    path = place.root / "models.jsonl"
    path.write_text(
        path.read_text().replace("; echo thinking > notes.txt", f"; {command}; true")
    )
    assert place.goal("run", "goal.toml", kill=("after", 17)).code == -9
    assert not (place.workspace / "goal.toml").exists()
    same_end(place, place.goal("resume"))


@pytest.mark.parametrize("name", ["events.jsonl", "transcript.jsonl"])
@pytest.mark.parametrize("tail", [b'{"v":"1.1","seq":99,"at', b"\0" * 700])
def test_half_a_line_that_a_power_cut_left_is_cut_off(
    place: Place, name: str, tail: bytes
) -> None:
    place.goal("run", "goal.toml", kill=("after", 22))
    assert place.folder is not None
    with (place.folder / name).open("ab") as file:
        file.write(tail)
    resumed = place.goal("resume")
    same_end(place, resumed)
    if name == "events.jsonl":
        assert f"the last {len(tail)} bytes" in resumed.err


def test_a_full_disk_ends_a_run_which_goes_on_when_there_is_room_again(
    place: Place, root: Path
) -> None:
    disk = root / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        full = Place(root, place.forks, disk / "home")
        path = root / "models.jsonl"
        fill = f"head -c 10000000 /dev/zero > {disk}/ballast 2>/dev/null; echo one >>"
        path.write_text(path.read_text().replace("echo one >>", fill))
        without_a_result(place)
        ended = full.goal("run", "goal.toml")
        assert ended.code == 4, ended
        # The second are the words of git, if a snapshot is what no longer fits.
        reasons = ("No space left on device", "Out of diskspace")
        assert any(reason in ended.err + ended.out for reason in reasons)
        (disk / "ballast").unlink()
        same_end(full, full.goal("resume"), results=2)
    finally:
        subprocess.run(["umount", disk], check=True)
