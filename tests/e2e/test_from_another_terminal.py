"""`goal cancel`, `goal watch` and `goal prune`: what one terminal does to a run that another one started."""

from __future__ import annotations

import json
import signal
import time
import tomllib
from pathlib import Path

from goalrunner.system import processes
from tests.support.command_line import only_run, start
from tests.support.forking import goal
from tests.support.recordings import agent, recording, shell
from tests.support.terminal import Terminal

"""A program or two for each thing that another terminal does: beside the default tests."""


def sleeping_goal(place: Path, command: str = "touch began; sleep 60") -> Path:
    """A goal whose agent sleeps for a minute; its validator wants the file `done`."""
    model = recording(
        place.parent / "r.jsonl", agent("", shell(command)), agent("made it")
    )
    path = place / "goal.toml"
    path.write_text(
        f'objective = "make done"\nmodel = "{model}"\nvalidator = "test -e done"\n[workspace]\npath = "."\n'
    )
    return path


def await_file(path: Path, timeout: float = 20) -> None:
    """Until the file is there."""
    deadline = time.monotonic() + timeout
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path} within {timeout} s"
        time.sleep(0.02)


def test_a_living_run_is_cancelled_within_two_seconds_and_never_goes_on(
    place: Path, own_home: Path
) -> None:
    running = start("run", sleeping_goal(place, "touch began; sleep 61"), cwd=place)
    await_file(place / "began")
    began = time.time()
    goal("status", cwd=place)
    asked, start_of_a_command = time.time(), time.time() - began
    cancelled = goal("cancel", "--yes", "--reason", "wrong goal", cwd=place)
    out, _ = running.communicate(timeout=20)

    outcome = json.loads((only_run(own_home) / "outcome.json").read_text())
    last = json.loads(
        (only_run(own_home) / "events.jsonl").read_text().splitlines()[-1]
    )
    assert (cancelled.code, running.returncode) == (0, 130), (cancelled, out)
    assert (outcome["status"], outcome["stop_reason"]) == ("cancelled", "cancelled")
    assert outcome["message"].startswith("cancelled by ")
    assert outcome["message"].endswith(": wrong goal")
    assert _seconds_since(last["at"], asked) < 2 + 2 * start_of_a_command
    assert not _alive("sleep 61"), "the command of the agent goes on"

    resumed = goal("resume", cwd=place)
    assert (resumed.code, "was cancelled, which is final" in resumed.err) == (
        2,
        True,
    ), resumed
    again = goal("cancel", cwd=place)
    assert (again.code, again.out == cancelled.out) == (0, True), again


def test_a_run_whose_process_is_gone_is_cancelled_as_well(
    place: Path, own_home: Path
) -> None:
    running = start("run", sleeping_goal(place, "touch began; sleep 3"), cwd=place)
    await_file(place / "began")
    running.send_signal(signal.SIGKILL)
    running.communicate()

    cancelled = goal("cancel", "--yes", "--json", cwd=place)
    said = json.loads(cancelled.out)
    assert (cancelled.code, said["status"]) == (0, "cancelled"), cancelled
    assert goal("status", cwd=place).code == 130
    assert goal("verify", cwd=place).code == 0


def test_a_goal_that_was_changed_since_the_start_is_not_gone_on_with(
    place: Path, own_home: Path
) -> None:
    capped = goal(
        "run", sleeping_goal(place, "touch began"), "--max-iterations", "1", cwd=place
    )
    frozen = only_run(own_home) / "goal.toml"
    frozen.write_text(frozen.read_text().replace("test -e done", "true"))
    resumed = goal("resume", "--max-iterations", "5", cwd=place)
    assert (capped.code, resumed.code) == (1, 4), (capped, resumed)
    assert "goal.toml was changed after the run began" in resumed.err
    assert goal("status", cwd=place).code == 1


def test_a_run_is_watched_to_its_end(place: Path, own_home: Path) -> None:
    running = start(
        "run", sleeping_goal(place, "touch began; sleep 2; touch done"), cwd=place
    )
    await_file(place / "began")
    assert (
        "status     running: round-1 · shell touch began; "
        in goal("status", cwd=place).out
    )
    watched = goal("watch", cwd=place)
    running.communicate(timeout=20)
    assert watched.code == 0, watched
    assert "shell" in watched.out
    assert watched.out.count("complete") == 1, watched.out


def test_at_a_terminal_the_output_of_the_running_command_is_watched(
    place: Path, own_home: Path
) -> None:
    running = start(
        "run",
        sleeping_goal(place, "echo compiling; touch began; sleep 3; touch done"),
        cwd=place,
    )
    await_file(place / "began")
    with Terminal("watch", cwd=place) as terminal:
        terminal.wait_for("             compiling\n")
        assert terminal.end() == 0
    running.communicate(timeout=20)


def test_watching_a_run_whose_process_dies_says_so(place: Path, own_home: Path) -> None:
    running = start("run", sleeping_goal(place), cwd=place)
    await_file(place / "began")
    watching = start("watch", cwd=place)
    time.sleep(0.5)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    out, err = watching.communicate(timeout=20)
    assert watching.returncode == 4, (out, err)
    assert "lost: its process has ended unexpectedly" in out


def test_a_detached_run_goes_on_without_its_terminal_and_waits_for_a_decision(
    place: Path, own_home: Path
) -> None:
    path = sleeping_goal(
        place, "touch began; while [ ! -e on ]; do sleep 0.1; done; touch done"
    )
    path.write_text(path.read_text() + '[approvals]\nrequire = ["complete"]\n')
    with Terminal("run", "--detach", cwd=place) as terminal:
        assert terminal.end() == 0, terminal.shown
    folder = only_run(own_home)
    run = folder.name
    assert f"{run} runs in the background" in terminal.shown
    await_file(place / "began")
    with Terminal("watch", cwd=place) as watching:
        watching.wait_for("shell")
        watching.type("\x03")
        assert watching.end() == 130, watching.shown
    assert f"the run goes on: goal watch {run}" in watching.shown
    (place / "on").touch()
    with Terminal("watch", cwd=place) as watching:
        watching.wait_for(f"goal approve {run} a1")
        assert "waiting for you" in goal("status", cwd=place).out
        assert goal("approve", run, cwd=place).code == 0
        assert watching.end() == 0, watching.shown
    assert "complete" in (folder / "output.log").read_text()
    assert (goal("status", cwd=place).code, list(own_home.glob("*.log"))) == (0, [])


def test_a_detached_command_has_the_arguments_and_the_folder_that_it_was_called_with(
    place: Path, own_home: Path
) -> None:
    """The command line is that of `main`, and not that of the process, which is another program here."""
    folder = place / "goals"
    folder.mkdir()
    path = sleeping_goal(folder, "touch done")
    path.write_text(path.read_text().replace('path = "."', 'path = ".."'))
    text = "--detach"  # a value that looks like the option
    slow = recording(place / "slow.jsonl", *[agent("", shell("sleep 60"))] * 3)
    started = goal(
        "run", "goals/goal.toml", "--constraint", text, "--detach", "--json", "--timeout", "1",
        "--model", slow, cwd=place,
    )  # fmt: skip
    run = json.loads(started.out)["run_id"]
    _await_status(place, run, "the time limit of 1 s")
    frozen = tomllib.loads((own_home / "runs" / run / "goal.toml").read_text())
    assert (frozen["constraints"], frozen["timeout"]) == ([text], 1)

    resumed = goal("resume", run[:4], "--timeout", "2", "--detach", cwd=place)
    assert f"{run} runs in the background" in resumed.out, resumed
    _await_status(place, run, "the time limit of 2 s")


def _await_status(place: Path, run: str, text: str, timeout: float = 30) -> None:
    """Wait until the status of a run in the background has this text."""
    deadline = time.monotonic() + timeout
    while text not in (said := goal("status", run, cwd=place).out):
        assert time.monotonic() < deadline, said
        time.sleep(0.1)


def test_a_detached_run_that_does_not_begin_says_why(
    place: Path, own_home: Path
) -> None:
    ended = start("run", "missing.toml", "--detach", cwd=place)
    out, err = ended.communicate(timeout=20)
    assert (ended.returncode, out, "missing.toml" in err) == (2, "", True), err
    assert list(own_home.glob("*.log")) == []


def test_old_runs_are_pruned_but_no_living_and_no_waiting_one(
    place: Path, own_home: Path
) -> None:
    old, waiting, fresh = (
        _finished(own_home, name) for name in ("old1-a", "wait-b", "new1-c")
    )
    _change(old, finished_at="2020-01-01T00:00:00+00:00")
    _change(
        waiting,
        finished_at="2020-01-01T00:00:00+00:00",
        stop_reason="approval_required",
    )
    running = start("run", sleeping_goal(place), cwd=place)
    await_file(place / "began")
    living = next(
        path
        for path in (own_home / "runs").iterdir()
        if path not in (old, waiting, fresh)
    )
    _change(
        living,
        started_at="2020-01-01T00:00:00+00:00",
        updated_at="2020-01-01T00:00:00+00:00",
    )

    assert (
        goal("prune", "--older-than", "30d", cwd=place).code == 2
    )  # there is no terminal to ask at
    seen = goal("prune", "--older-than", "30d", "--dry-run", cwd=place)
    assert (seen.out, old.exists()) == ("would remove  old1-a  complete\n", True)
    pruned = goal("prune", "--older-than", "30d", "--yes", "--json", cwd=place)
    running.kill()
    running.communicate()

    assert json.loads(pruned.out)["removed"] == ["old1-a"]
    assert sorted(path.name for path in (own_home / "runs").iterdir()) == sorted(
        path.name for path in (waiting, fresh, living)
    )
    assert (
        '"soon" is not valid; use "90d", "12h" or "30m"'
        in goal("prune", "--older-than", "soon", "--yes", cwd=place).err
    )


def _finished(home: Path, name: str) -> Path:
    folder = home / "runs" / name
    folder.mkdir(parents=True)
    values = {
        "run_id": name,
        "status": "complete",
        "stop_reason": "satisfied",
        "started_at": "2026-11-01T00:00:00+00:00",
    }
    (folder / "summary.json").write_text(
        json.dumps({**values, "finished_at": "2999-01-01T00:00:00+00:00"})
    )
    return folder


def _change(folder: Path, **values: str) -> None:
    path = folder / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def _seconds_since(at: str, began: float) -> float:
    from datetime import datetime

    return datetime.fromisoformat(at).timestamp() - began


def _alive(command: str) -> bool:
    return command in (
        line.replace("\0", " ").strip() for _, line in processes.command_lines()
    )
