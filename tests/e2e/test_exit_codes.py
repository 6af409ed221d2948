"""Every way `goal run` can end, seen from a shell: exit code, outcome.json, and what is left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from goalrunner.system import processes
from tests.support.command_line import GOAL, environment, only_run, outcome_of, start
from tests.support.forking import goal
from tests.support.recordings import agent, recording, shell


def goal_file(
    place: Path, model: str, extra: str = "", checks: str = 'validator = "test -e done"'
) -> Path:
    """A goal whose validator wants the file `done`."""
    path = place / "goal.toml"
    path.write_text(
        f'objective = "make done"\nmodel = "{model}"\n{checks}\n{extra}\n[workspace]\npath = "."\n'
    )
    return path


NAP = f"sleep 4321{os.getpid():07}"
"""Known from the commands of tests that run at the same time."""


def living(command: str) -> bool:
    """Return whether a process has this in its arguments."""
    return any(
        command in line.replace("\0", " ") for _, line in processes.command_lines()
    )


def await_delivery(pid: int) -> None:
    """Wait until a process has taken its signals: two of one kind that are pending are one."""
    status = Path(f"/proc/{pid}/status")
    while status.exists() and not re.search(
        r"^ShdPnd:\t0+$", status.read_text(), re.MULTILINE
    ):
        time.sleep(0.001)


def wait_for(home: Path, event: str, timeout: float = 20) -> None:
    """Until the only run's log holds an event of that type."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if any(
            f'"{event}"' in path.read_text()
            for path in (home / "runs").glob("*/events.jsonl")
        ):
            return
        time.sleep(0.02)
    raise AssertionError(f"no {event} within {timeout} s")


def test_complete_is_0(place: Path, own_home: Path) -> None:
    model = recording(
        place.parent / "r.jsonl", agent("", shell("touch done")), agent("made it")
    )
    ended = goal("run", goal_file(place, model), cwd=place)
    assert (ended.code, outcome_of(own_home)["stop_reason"]) == (0, "satisfied"), ended
    assert sorted(path.name for path in place.iterdir()) == ["done", "goal.toml"]


def test_a_program_that_a_dry_run_misses_ends_a_run_before_its_baseline(
    place: Path, own_home: Path
) -> None:
    recording(place / "r.jsonl", agent("never asked"))
    path = goal_file(
        place, "scripted/r.jsonl", checks='validator = "no-such-program-here"'
    )
    dry, ended = goal("run", path, "--dry-run", cwd=place), goal("run", path, cwd=place)
    assert (dry.code, ended.code) == (4, 4), (dry, ended)
    outcome = outcome_of(own_home)
    for said in (dry.err, outcome["message"]):
        assert "no-such-program-here: not found" in said
    assert outcome["stop_reason"] == "validator_missing"
    assert "baseline_taken" not in (only_run(own_home) / "events.jsonl").read_text()


@pytest.mark.parametrize("role", ["agent", "judge"])
def test_a_missing_key_is_named_before_a_run_is_made(
    place: Path, own_home: Path, role: str
) -> None:
    recording(place / "r.jsonl", agent("never asked"))
    judge = 'judge = "openai/gpt-5-mini"\n' if role == "judge" else ""
    path = goal_file(
        place,
        "scripted/r.jsonl" if judge else "openai/gpt-5-mini",
        checks=f'{judge}validator = "false"',
    )
    dry, ended = goal("run", path, "--dry-run", cwd=place), goal("run", path, cwd=place)
    assert (dry.code, ended.code) == (4, 4), (dry, ended)
    assert f"or name another variable with api_key_env in [{role}]" in ended.err
    assert "export OPENAI_API_KEY=" in dry.err
    assert not (own_home / "runs").exists()


def test_a_deadline_that_ends_a_validator_is_1_and_leaves_no_process(
    place: Path, own_home: Path
) -> None:
    model = recording(place.parent / "r.jsonl", agent("done"))
    path = goal_file(place, model, "timeout = 1.5", f'validator = "{NAP} & {NAP}"')
    ended = goal("run", path, cwd=place)
    assert (ended.code, outcome_of(own_home)["stop_reason"]) == (1, "timeout"), ended
    assert not living(NAP)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
)
def test_a_signal_is_128_and_its_number_with_everything_saved(
    place: Path, own_home: Path, number: signal.Signals, code: int
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("these tests run under nohup, which goal keeps to")
    model = recording(place.parent / "r.jsonl", agent("", shell(NAP)))
    process = start("run", goal_file(place, model), cwd=place)
    wait_for(own_home, "tool_called")
    process.send_signal(number)
    out, err = process.communicate(timeout=15)
    outcome = outcome_of(own_home)
    assert (process.returncode, outcome["status"], outcome["stop_reason"]) == (
        code,
        "cancelled",
        "interrupted",
    ), out + err
    assert not living(NAP)
    assert goal("status", cwd=place).code == code


def test_what_nohup_ignores_stays_ignored(place: Path, own_home: Path) -> None:
    model = recording(
        place.parent / "r.jsonl", agent("", shell("sleep 1; touch done")), agent("made")
    )
    command = [
        "sh",
        "-c",
        'trap "" HUP; exec "$@"',
        "sh",
        *GOAL,
        "run",
        str(goal_file(place, model)),
    ]
    process = subprocess.Popen(
        command, cwd=place, env=environment(), stdout=subprocess.DEVNULL
    )
    wait_for(own_home, "tool_called")
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=20) == 0


def test_a_second_interrupt_goes_at_once_and_takes_the_children_along(
    place: Path, own_home: Path
) -> None:
    nap = NAP.replace("4321", "0.4")
    model = recording(
        place.parent / "r.jsonl",
        agent("", shell(f"trap '' TERM INT; while :; do {nap}; done")),
    )
    process = start("run", goal_file(place, model), cwd=place)
    wait_for(own_home, "tool_called")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    await_delivery(process.pid)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    process.communicate(timeout=15)
    assert process.returncode == 130
    assert time.monotonic() - began < 3
    deadline = time.monotonic() + 20  # the watchdog has to start
    while living(nap) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not living(nap)


def test_a_secret_of_the_environment_is_written_nowhere(
    place: Path, own_home: Path
) -> None:
    secret = "hunter2-hunter2-hunter2"
    model = recording(
        place.parent / "r.jsonl",
        agent(f"I saw {secret}", shell("echo $DEPLOY_TOKEN; touch done")),
        agent("ok"),
    )
    ended = goal(
        "run", goal_file(place, model), cwd=place, env={"DEPLOY_TOKEN": secret}
    )
    assert ended.code == 0, ended
    files = [path for path in own_home.rglob("*") if path.is_file()]
    assert files
    assert [path.name for path in files if secret.encode() in path.read_bytes()] == []
    assert any(b"[redacted:DEPLOY_TOKEN]" in path.read_bytes() for path in files)


def test_a_secret_of_the_goal_file_is_written_nowhere_else(
    place: Path, own_home: Path
) -> None:
    secret = "correct-horse-battery"
    model = recording(
        place.parent / "r.jsonl",
        agent("", shell("echo $DB_PASSWORD; touch done")),
        agent("ok"),
    )
    path = goal_file(place, model, f'agent.env.DB_PASSWORD = "{secret}"')
    assert goal("run", path, cwd=place).code == 0
    assert [
        found.name
        for found in own_home.rglob("*")
        if found.is_file() and secret.encode() in found.read_bytes()
    ] == []


def test_what_a_cut_command_printed_does_not_stay_unredacted(
    place: Path, own_home: Path
) -> None:
    secret = "hunter2-hunter2-hunter2"
    model = recording(
        place.parent / "r.jsonl", agent("", shell("echo $DEPLOY_TOKEN; sleep 60"))
    )
    path = goal_file(place, model, "timeout = 1.5")
    assert goal("run", path, cwd=place, env={"DEPLOY_TOKEN": secret}).code == 1
    assert [
        found.name
        for found in own_home.rglob("*")
        if found.is_file() and secret.encode() in found.read_bytes()
    ] == []


def test_a_signal_before_the_run_has_begun_leaves_an_outcome_too(
    place: Path, own_home: Path
) -> None:
    model = recording(place.parent / "r.jsonl", agent("", shell("sleep 60")))
    process = start("run", goal_file(place, model), cwd=place)
    wait_for(own_home, "goal_created")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=15)
    assert (process.returncode, outcome_of(own_home)["status"]) == (143, "cancelled")


def test_a_runs_files_are_its_owners_alone(place: Path, own_home: Path) -> None:
    model = recording(
        place.parent / "r.jsonl", agent("", shell("touch done")), agent("ok")
    )
    assert goal("run", goal_file(place, model), cwd=place).code == 0
    assert [
        path.name for path in own_home.iterdir() if path.stat().st_mode & 0o077
    ] == []
    for path in (own_home / "runs").rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_the_python_of_a_validator_is_a_child_process(
    place: Path, own_home: Path
) -> None:
    (place / "checks.py").write_text(
        "import os\ndef done(response, agent):\n    return os.getppid() == int(os.environ['T'])\n"
    )
    model = recording(place.parent / "r.jsonl", agent("ok"))
    path = goal_file(place, model, checks='[[validators]]\npython = "checks:done"\n')
    path.write_text(
        path.read_text().replace('[[validators]]\npython = "checks:done"\n', "")
        + '[[validators]]\npython = "checks:done"\n'
    )
    process = start(
        "run", path, "--max-iterations", "1", cwd=place, env={"T": str(os.getpid())}
    )
    process.communicate(timeout=20)
    assert process.returncode == 1
