"""What the exported files run, started as Slurm and Kubernetes start it, killed, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from goalrunner.cli.main import main
from goalrunner.records.run_folder import RunFolder
from tests.support.command_line import environment
from tests.support.recordings import agent, recording, shell
from tests.support.workspaces import git, make_repository, write

pytestmark = pytest.mark.slow
yaml = pytest.importorskip("yaml")

GOAL = """\
objective = "Make the file {name}."
validator = "test -e {name}"
model = "scripted/replies.jsonl"
max_iterations = {rounds}
"""
TASKS = {"one": 2, "never": 1}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two goals; the agent makes only the file `one`."""
    goals = {
        f"{name}.toml": GOAL.format(name=name, rounds=rounds)
        for name, rounds in TASKS.items()
    }
    repository = make_repository(tmp_path / "project", goals)
    # The first time, the agent is busy until somebody kills it.
    work = 'test -e "$HOME/begun" || { touch "$HOME/begun"; sleep 120; }; touch one'
    first_turn = (agent("", shell(work)), agent("Done."))
    # A call that was interrupted is not made again, so the next round makes the file.
    second_turn = (agent("", shell("touch one")), agent("Done."))
    recording(repository / "replies.jsonl", *first_turn, *second_turn)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "replies")
    git(repository, "remote", "add", "origin", repository.as_uri())
    program = tmp_path / "bin" / "goal"
    write(
        program.parent,
        {"goal": f'#!/bin/sh\nexec "{sys.executable}" -m goalrunner "$@"\n'},
    )
    program.chmod(0o755)
    monkeypatch.chdir(repository)
    return tmp_path


def variables(job: Path, **more: str) -> dict[str, str]:
    environ = environment(HOME=str(job), GOAL_HOME=str(job / "home"), **more)
    return {**environ, "PATH": f"{job / 'bin'}{os.pathsep}{environ['PATH']}"}


def run_of(job: Path, name: str) -> RunFolder:
    (path,) = (job / "home" / "runs").glob(f"night-{name}")
    return RunFolder(path)


def kill_when_begun(process: subprocess.Popen[bytes], job: Path) -> None:
    until = time.monotonic() + 60
    while not (job / "begun").exists():
        assert time.monotonic() < until, "the agent did not begin"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_killed_job_of_slurm_resumes_its_run_when_it_is_requeued(job: Path) -> None:
    script = job / "job.sh"
    assert main(["export", ".", "--slurm", "--name", "night", "-o", str(script)]) == 0
    indices = {task: str(index) for index, task in enumerate(sorted(TASKS))}

    def environ(task: str) -> dict[str, str]:
        return variables(job, SLURM_ARRAY_TASK_ID=indices[task])

    command = ["sh", str(script)]
    first = subprocess.Popen(command, env=environ("one"), start_new_session=True)
    kill_when_begun(first, job)
    again = subprocess.run(command, env=environ("one"), check=False)
    assert again.returncode == 0
    events = run_of(job, "one").events.read_text()
    assert events.count('"type":"run_started"') == 1
    assert events.count('"type":"run_resumed"') == 1
    # A goal that is not reached has the same result each time, and is not run again.
    for _ in range(2):
        capped = subprocess.run(command, env=environ("never"), check=False)
        assert capped.returncode == 1
    assert run_of(job, "never").events.read_text().count("round_started") == 1


def test_the_container_of_kubernetes_runs_the_goal_of_its_index(job: Path) -> None:
    manifest = job / "job.yaml"
    arguments = ["export", ".", "--kubernetes", "--image", "i", "--name", "night"]
    assert main([*arguments, "-o", str(manifest)]) == 0
    made = {
        document["kind"]: document
        for document in yaml.safe_load_all(manifest.read_text())
    }
    (container,) = made["Job"]["spec"]["template"]["spec"]["containers"]
    mounted = job / "goal-job"
    write(mounted, made["ConfigMap"]["data"])
    command = [part.replace("/goal-job", str(mounted)) for part in container["command"]]
    own = {entry["name"]: entry["value"] for entry in container["env"]}
    environ = {
        **own,
        **variables(job, JOB_COMPLETION_INDEX=str(sorted(TASKS).index("one"))),
    }
    (job / "begun").touch()
    assert subprocess.run(command, env=environ, check=False).returncode == 0
    assert '"status": "complete"' in run_of(job, "one").outcome.read_text()
