"""Every way `goal run` can end, seen from a shell: exit code, outcome.json, and what is left behind."""

from __future__ import annotations

import json
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
from tests.support.recordings import agent, judge, quote, recording, shell


def goal_file(place: Path, model: str, extra: str = "", checks: str = 'validator = "test -e done"') -> Path:
    """A goal whose validator wants the file `done`."""
    path = place / "goal.toml"
    path.write_text(f'objective = "make done"\nmodel = "{model}"\n{checks}\n{extra}\n[workspace]\npath = "."\n')
    return path


NAP = f"sleep 4321{os.getpid():07}"
"""Known from the commands of tests that run at the same time."""


def living(command: str) -> bool:
    """Return whether a process has this in its arguments."""
    return any(command in line.replace("\0", " ") for _, line in processes.command_lines())


def await_delivery(pid: int) -> None:
    """Wait until a process has taken its signals: two of one kind that are pending are one."""
    status = Path(f"/proc/{pid}/status")
    while status.exists() and not re.search(r"^ShdPnd:\t0+$", status.read_text(), re.MULTILINE):
        time.sleep(0.001)


def wait_for(home: Path, event: str, timeout: float = 20) -> None:
    """Until the only run's log holds an event of that type."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if any(f'"{event}"' in path.read_text() for path in (home / "runs").glob("*/events.jsonl")):
            return
        time.sleep(0.02)
    raise AssertionError(f"no {event} within {timeout} s")


def test_complete_is_0(place: Path, own_home: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("", shell("touch done")), agent("made it"))
    ended = goal("run", goal_file(place, model), cwd=place)
    assert (ended.code, outcome_of(own_home)["stop_reason"]) == (0, "satisfied"), ended
    assert sorted(path.name for path in place.iterdir()) == ["done", "goal.toml"]


def test_a_program_that_a_dry_run_misses_ends_a_run_before_its_baseline(place: Path, own_home: Path) -> None:
    recording(place / "r.jsonl", agent("never asked"))
    path = goal_file(place, "scripted/r.jsonl", checks='validator = "no-such-program-here"')
    dry, ended = goal("run", path, "--dry-run", cwd=place), goal("run", path, cwd=place)
    assert (dry.code, ended.code) == (4, 4), (dry, ended)
    outcome = outcome_of(own_home)
    for said in (dry.err, outcome["message"]):
        assert "no-such-program-here: not found" in said
    assert outcome["stop_reason"] == "validator_missing"
    assert "baseline_taken" not in (only_run(own_home) / "events.jsonl").read_text()


def test_an_unknown_provider_is_named_before_a_run_is_made(place: Path, own_home: Path) -> None:
    path = goal_file(place, "opnai/gpt-5-mini")
    for options in (("--dry-run",), ()):
        ended = goal("run", path, *options, cwd=place)
        assert (ended.code, "did you mean openai/gpt-5-mini?" in ended.err) == (4, True), ended
    assert not (own_home / "runs").exists()


@pytest.mark.parametrize("role", ["agent", "judge"])
def test_a_missing_key_is_named_before_a_run_is_made(place: Path, own_home: Path, role: str) -> None:
    recording(place / "r.jsonl", agent("never asked"))
    judge = 'judge = "openai/gpt-5-mini"\n' if role == "judge" else ""
    path = goal_file(place, "scripted/r.jsonl" if judge else "openai/gpt-5-mini", checks=f'{judge}validator = "false"')
    dry, ended = goal("run", path, "--dry-run", cwd=place), goal("run", path, cwd=place)
    assert (dry.code, ended.code) == (4, 4), (dry, ended)
    assert f"or name another variable with api_key_env in [{role}]" in ended.err
    assert "export OPENAI_API_KEY=" in dry.err
    assert not (own_home / "runs").exists()


def test_capped_is_1(place: Path, own_home: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("done!"), agent("really done!"))
    ended = goal("run", goal_file(place, model, "max_iterations = 2"), cwd=place)
    outcome = outcome_of(own_home)
    assert (ended.code, outcome["status"], outcome["stop_reason"]) == (1, "capped", "max_iterations"), ended
    assert (outcome["iterations"], len(outcome["attempts"])) == (2, 2)


def test_a_deadline_that_cuts_a_model_call_is_1(place: Path, own_home: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("late", delay=60))
    ended = goal("run", goal_file(place, model, 'timeout = "700ms"'), cwd=place)
    assert (ended.code, outcome_of(own_home)["stop_reason"]) == (1, "timeout"), ended


def test_a_deadline_that_ends_a_validator_is_1_and_leaves_no_process(place: Path, own_home: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("done"))
    path = goal_file(place, model, "timeout = 1.5", f'validator = "{NAP} & {NAP}"')
    ended = goal("run", path, cwd=place)
    assert (ended.code, outcome_of(own_home)["stop_reason"]) == (1, "timeout"), ended
    assert not living(NAP)


def test_a_goal_file_that_does_not_hold_is_2_and_makes_no_run(place: Path, own_home: Path) -> None:
    (place / "goal.toml").write_text('objective = ""\nmax_iteration = 0\n')
    ended = goal("run", "goal.toml", cwd=place)
    assert ended.code == 2
    assert 'goal.toml:2:1  unknown key "max_iteration"; did you mean "max_iterations"?' in ended.err
    assert "Traceback" not in ended.err
    assert not (own_home / "runs").exists()


def test_wrong_usage_is_2(place: Path) -> None:
    assert goal("run", "--nonsense", cwd=place).code == 2
    assert goal("run", cwd=place).code == 2
    assert goal("run", "missing.toml", cwd=place).code == 2
    assert goal("nonsense", cwd=place).code == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
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
    assert (process.returncode, outcome["status"], outcome["stop_reason"]) == (code, "cancelled", "interrupted"), (
        out + err
    )
    assert not living(NAP)
    assert goal("status", cwd=place).code == code


def test_what_nohup_ignores_stays_ignored(place: Path, own_home: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("", shell("sleep 1; touch done")), agent("made"))
    command = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *GOAL, "run", str(goal_file(place, model))]
    process = subprocess.Popen(command, cwd=place, env=environment(), stdout=subprocess.DEVNULL)
    wait_for(own_home, "tool_called")
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=20) == 0


def test_a_second_interrupt_goes_at_once_and_takes_the_children_along(place: Path, own_home: Path) -> None:
    nap = NAP.replace("4321", "0.4")
    model = recording(place.parent / "r.jsonl", agent("", shell(f"trap '' TERM INT; while :; do {nap}; done")))
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


def test_without_a_file_and_as_json(place: Path, own_home: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("", shell("touch done")), agent("made"))
    options = ["--objective", "make done", "--validator", "test -e done", "--model", model, "--json"]
    ended = goal("run", *options, "--output", place.parent / "copy.json", cwd=place)
    assert ended.code == 0, ended
    printed = json.loads(ended.out)
    assert printed["status"] == "complete"
    assert json.loads((place.parent / "copy.json").read_text()) == printed
    assert "round 1" in ended.err


def test_a_dry_run_spends_nothing(place: Path, own_home: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("done"))
    ended = goal("run", goal_file(place, model), "--dry-run", "--max-iterations", "3", cwd=place)
    assert ended.code == 0, ended
    assert "3 rounds" in ended.out
    assert not (own_home / "runs").exists()


def test_options_override_the_environment_which_overrides_the_file(place: Path) -> None:
    path = goal_file(place, recording(place.parent / "file.jsonl", agent("done")))
    named = {name: recording(place.parent / f"{name}.jsonl", agent("done")) for name in ("environment", "option")}
    env = {"GOAL_MODEL": named["environment"]}
    assert "environment.jsonl" in goal("run", path, "--dry-run", cwd=place, env=env).out
    assert "option.jsonl" in goal("run", path, "--dry-run", "--model", named["option"], cwd=place, env=env).out


def test_a_secret_of_the_environment_is_written_nowhere(place: Path, own_home: Path) -> None:
    secret = "hunter2-hunter2-hunter2"
    model = recording(
        place.parent / "r.jsonl", agent(f"I saw {secret}", shell("echo $DEPLOY_TOKEN; touch done")), agent("ok")
    )
    ended = goal("run", goal_file(place, model), cwd=place, env={"DEPLOY_TOKEN": secret})
    assert ended.code == 0, ended
    files = [path for path in own_home.rglob("*") if path.is_file()]
    assert files
    assert [path.name for path in files if secret.encode() in path.read_bytes()] == []
    assert any(b"[redacted:DEPLOY_TOKEN]" in path.read_bytes() for path in files)


def test_a_secret_of_the_goal_file_is_written_nowhere_else(place: Path, own_home: Path) -> None:
    secret = "correct-horse-battery"
    model = recording(place.parent / "r.jsonl", agent("", shell("echo $DB_PASSWORD; touch done")), agent("ok"))
    path = goal_file(place, model, f'agent.env.DB_PASSWORD = "{secret}"')
    assert goal("run", path, cwd=place).code == 0
    assert [
        found.name for found in own_home.rglob("*") if found.is_file() and secret.encode() in found.read_bytes()
    ] == []


def test_what_a_cut_command_printed_does_not_stay_unredacted(place: Path, own_home: Path) -> None:
    secret = "hunter2-hunter2-hunter2"
    model = recording(place.parent / "r.jsonl", agent("", shell("echo $DEPLOY_TOKEN; sleep 60")))
    path = goal_file(place, model, "timeout = 1.5")
    assert goal("run", path, cwd=place, env={"DEPLOY_TOKEN": secret}).code == 1
    assert [
        found.name for found in own_home.rglob("*") if found.is_file() and secret.encode() in found.read_bytes()
    ] == []


def test_a_signal_before_the_run_has_begun_leaves_an_outcome_too(place: Path, own_home: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("", shell("sleep 60")))
    process = start("run", goal_file(place, model), cwd=place)
    wait_for(own_home, "goal_created")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=15)
    assert (process.returncode, outcome_of(own_home)["status"]) == (143, "cancelled")


def test_a_runs_files_are_its_owners_alone(place: Path, own_home: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("", shell("touch done")), agent("ok"))
    assert goal("run", goal_file(place, model), cwd=place).code == 0
    assert [path.name for path in own_home.iterdir() if path.stat().st_mode & 0o077] == []
    for path in (own_home / "runs").rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_a_recording_of_a_run_plays_it_again(place: Path, own_home: Path) -> None:
    model = recording(
        place.parent / "r.jsonl",
        agent("", shell("printf 'hel'; echo 'lo world'")),
        agent("said"),
        judge(("it says hello", [quote("o1", "hello world")])),
    )
    options = ["--objective", "say hello", "--model", model, "--judge", model]
    tape = place.parent / "tape.jsonl"
    assert goal("run", *options, "--record", tape, cwd=place).code == 0
    played = f"scripted/{tape}"
    assert goal("run", "--objective", "say hello", "--model", played, "--judge", played, cwd=place).code == 0


def test_status_list_and_show_of_a_run(place: Path, own_home: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("", shell("touch done")), agent("ok"))
    assert goal("run", goal_file(place, model), cwd=place).code == 0
    (run,) = [path.name for path in (own_home / "runs").iterdir()]
    status = goal("status", run[:4], cwd=place)
    assert (status.code, "complete" in status.out) == (0, True)
    assert json.loads(goal("list", "--json", cwd=place).out)[0]["run_id"] == run
    assert goal("show", run, "--path", cwd=place).out.strip() == str(own_home / "runs" / run)
    shown = goal("show", run, cwd=place).out
    assert "touch done" in shown
    assert "· agent   said                       ok\n" in shown
    (own_home / "runs" / run / "transcript.jsonl").unlink()
    assert goal("show", run, cwd=place).out == shown.replace("           · agent   said                       ok\n", "")


def test_status_of_a_runs_transcript(place: Path, own_home: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("", shell("printf '3 pas'; echo sed; touch done")), agent("ok"))
    path = goal_file(place, model)
    assert goal("run", path, cwd=place).code == 0
    (transcript,) = (own_home / "runs").glob("*/transcript.jsonl")
    judged = recording(place.parent / "j.jsonl", judge(("tests pass", [quote("o2", "3 passed")])))
    ended = goal("status", transcript, "--goal", path, "--judge", judged, "--json", cwd=place)
    assert (ended.code, json.loads(ended.out)["complete"]) == (0, True), ended


def test_off_a_terminal_there_are_plain_lines(place: Path) -> None:
    model = recording(place.parent / "r.jsonl", agent("", shell("touch done")), agent("ok"))
    ended = goal("run", goal_file(place, model), cwd=place)
    assert "\x1b" not in ended.out
    assert re.search(r"^round 1 +· shell +touch done +\S+ s +exit 0$", ended.out, re.MULTILINE), ended.out


def test_the_python_of_a_validator_is_a_child_process(place: Path, own_home: Path) -> None:
    (place / "checks.py").write_text(
        "import os\ndef done(response, agent):\n    return os.getppid() == int(os.environ['T'])\n"
    )
    model = recording(place.parent / "r.jsonl", agent("ok"))
    path = goal_file(place, model, checks='[[validators]]\npython = "checks:done"\n')
    path.write_text(
        path.read_text().replace('[[validators]]\npython = "checks:done"\n', "")
        + '[[validators]]\npython = "checks:done"\n'
    )
    process = start("run", path, "--max-iterations", "1", cwd=place, env={"T": str(os.getpid())})
    process.communicate(timeout=20)
    assert process.returncode == 1
