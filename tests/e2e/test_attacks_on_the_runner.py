"""Whole runs of a command agent that attacks what surrounds its checks, each beside an honest run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Ended
from tests.support.forking import goal
from tests.support.sandboxes import needs_sandbox

SERVER = "import time\nfor _ in range(300): time.sleep(0.1)\n"


def prepare(
    place: Path, script: str, validator: str = "test -e done", more: str = ""
) -> None:
    """Write a goal file whose agent is a shell script."""
    (place / "agent.sh").write_text(script)
    (place / "goal.toml").write_text(
        f"objective = \"make done\"\nvalidator = '''{validator}'''\nmax_iterations = 1\n"
        f'agent = {{ use = "command", command = "sh agent.sh" }}\n{more}'
    )


def drive(
    place: Path,
    script: str,
    *options: str,
    validator: str = "test -e done",
    more: str = "",
) -> Ended:
    """Run such a goal."""
    prepare(place, script, validator, more)
    return goal("run", "goal.toml", *options, cwd=place)


def outcome(home: Path) -> dict[str, Any]:
    (run,) = (home / "runs").iterdir()
    result: dict[str, Any] = json.loads((run / "outcome.json").read_text())
    return result


# What tells code under test that it is being checked.


@pytest.mark.parametrize("check", ["overlay", "in-place"])
def test_validators_have_no_variable_that_the_agent_has_not(
    place: Path, tmp_path: Path, check: str
) -> None:
    seen = f"{sys.executable} -c 'import os; print(*sorted(os.environ), file=open(os.sys.argv[1], \"w\"))'"
    script = f"{seen} {tmp_path}/agent; touch done"
    validator = f"{seen} {tmp_path}/check; test -e done"
    ended = drive(
        place, script, validator=validator, more=f'[workspace]\ncheck = "{check}"\n'
    )
    assert ended.code == 0, ended
    of_agent, of_check = (
        set((tmp_path / name).read_text().split()) for name in ("agent", "check")
    )
    assert of_check - of_agent == set()
    assert of_agent - of_check <= {
        "GOALRUNNER_LAUNCH",
        "GOAL_HOME",
    }  # settings of `goal` are for the user's shell


def test_a_variable_that_a_script_names_at_the_start_is_there(place: Path) -> None:
    (place / "check.sh").write_text(
        'test -e done && test "$GOAL_ITERATION" -lt 9 && test -r "$GOAL_RESPONSE_FILE"\n'
    )
    assert drive(place, "touch done", validator="sh check.sh").code == 0


def test_a_script_that_the_agent_edits_is_told_nothing_more(
    place: Path, tmp_path: Path
) -> None:
    (place / "check.sh").write_text("python app.py\n")
    (place / "app.py").write_text("raise SystemExit(1)\n")
    script = (
        "echo '# GOAL_ITERATION GOAL_RUN_ID' >> check.sh\n"
        "echo 'import os; raise SystemExit(not any(name in os.environ for name in "
        '("GOAL_ITERATION", "GOAL_RUN_ID")))\' > app.py\n'
    )
    ended = drive(place, script, validator="sh check.sh")
    assert ended.code != 0, ended


# The files that the runner writes into the workspace.


def test_a_copy_is_not_written_through_links_of_the_agent(
    place: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "result.json").write_text("precious")
    (place / "out").mkdir()
    script = f"rm -rf out; ln -s {victim} out; touch done"
    ended = drive(place, script, "--output", "out/result.json")
    assert (ended.code, "a folder of its path became a link" in ended.err) == (
        4,
        True,
    ), ended
    assert (victim / "result.json").read_text() == "precious"
    assert "complete" in ended.out


def test_a_pipe_of_the_agent_does_not_hold_the_runner_up(place: Path) -> None:
    ended = drive(place, "mkfifo result.json; touch done", "--output", "result.json")
    assert ended.code == 0, ended
    assert json.loads((place / "result.json").read_text())["status"] == "complete"


@pytest.mark.parametrize("path", ["result.json", "/dev/stdout", ">(cat > piped.json)"])
def test_an_honest_copy_is_written(place: Path, path: str) -> None:
    prepare(place, "touch done")
    line = f"{sys.executable} -m goalrunner run --quiet goal.toml --output {path}; sleep 0.2"
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    file = {"result.json": "result.json", "/dev/stdout": ""}.get(path, "piped.json")
    text = (place / file).read_text() if file else done.stdout
    assert (
        json.JSONDecoder().raw_decode(text[text.index("{") :])[0]["status"]
        == "complete"
    ), done


# What the agent leaves running.


@pytest.mark.skipif(sys.platform != "linux", reason="adoption is Linux's")
def test_every_process_of_the_agent_ends_with_its_round_and_is_named(
    place: Path, own_home: Path
) -> None:
    (place / "server.py").write_text(SERVER)
    script = (
        f"touch done\nsetsid env -i PATH=$PATH sh -c '{sys.executable} server.py hidden & exit 0'\n"
        f"setsid {sys.executable} server.py plain &\nsleep 0.3\n"
    )
    with subprocess.Popen(
        [sys.executable, "server.py", "of the user"], cwd=place
    ) as own:
        try:
            ended = drive(place, script)
            assert own.poll() is None
        finally:
            own.kill()
    assert ended.code == 0, ended
    said = next(
        line for line in ended.out.splitlines() if "left running were ended" in line
    )
    assert said.count("python") == 2
    left = subprocess.run(
        ["pgrep", "-af", f"{place}|server.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not [
        line
        for line in left.stdout.splitlines()
        if "server.py hidden" in line or "server.py plain" in line
    ]


# Hidden validators.

HIDDEN = '[[validators]]\nrun = "test -e done"\n[[validators]]\nrun = "grep -q 4711 done"\nhidden = true\n'


def with_hidden(place: Path, script: str, sandbox: str) -> Ended:
    (place / "agent.sh").write_text(script)
    (place / "goal.toml").write_text(
        'objective = "make done"\nmax_iterations = 1\nagent = { use = "command", command = "sh agent.sh" }\n'
        f'workspace = {{ sandbox = "{sandbox}" }}\n{HIDDEN}'
    )
    return goal("run", "goal.toml", cwd=place)


@needs_sandbox
def test_in_the_sandbox_the_goal_file_holds_nothing(
    place: Path, own_home: Path
) -> None:
    ended = with_hidden(
        place, "grep -o '[0-9]*' goal.toml > done; cp goal.toml copy", "bwrap"
    )
    assert ended.code == 1, ended
    assert (place / "copy").read_bytes() == b""
    assert outcome(own_home)["labels"] == []


@needs_sandbox
def test_an_honest_agent_passes_hidden_validators_in_the_sandbox(
    place: Path, own_home: Path
) -> None:
    ended = with_hidden(place, "echo 4711 > done; git init -q . && git add -A", "bwrap")
    assert (ended.code, outcome(own_home)["labels"]) == (0, []), ended


def test_without_a_sandbox_the_run_says_that_hidden_checks_can_be_read(
    place: Path, own_home: Path
) -> None:
    ended = with_hidden(place, "echo 4711 > done", "none")
    assert (ended.code, outcome(own_home)["labels"]) == (
        0,
        ["hidden checks readable"],
    ), ended
