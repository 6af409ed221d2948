"""Whole groups of command agents: `goal run --best-of`, and what is done with its result."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from goalrunner.batches.batch_folder import BatchFolder, batch_names
from goalrunner.batches.history import BatchState
from goalrunner.checking.overlay import probe
from tests.support import forking
from tests.support.command_line import GOAL, Ended, environment
from tests.support.workspaces import git, make_repository

pytestmark = pytest.mark.slow

_GOAL = """\
objective = "done.txt exists"
max_iterations = 2

[[validators]]
name = "done"
run = "test -e done.txt"

[[validators]]
name = "secret"
run = "! grep bad done.txt"
hidden = true

[agents.short]
argv = ["sh", "-c", "echo one > done.txt"]

[agents.long]
argv = ["sh", "-c", "seq 9 > done.txt"]

[agents.idle]
argv = ["sh", "-c", "echo \\"$PPID\\" > idle.txt"]

[agents.sly]
argv = ["sh", "-c", "if [ -e done.txt ]; then echo one > done.txt; else echo bad > done.txt; fi"]

[agents.waiting]
argv = ["sh", "-c", "touch {place}/began-$GOAL_SLOT; until [ -e {place}/gate ]; do sleep 0.05; done; seq 9 > done.txt"]

[agents.dear]
argv = [{python}, "{place}/dear.py"]
stream = "claude"
reports = {{ tokens = "turn", cost_usd = "session" }}
"""
_DEAR = """\
import json, pathlib
number = len(list(pathlib.Path().glob("try-*")))
pathlib.Path(f"try-{number}").touch()
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))
used = {"input_tokens": 900, "output_tokens": 100}
print(json.dumps({"type": "result", "subtype": "success", "is_error": False,
    "session_id": "s", "result": "Tried.", "usage": used, "total_cost_usd": 0.5}))
"""


class Project:
    """A workspace with agents, and its own GOAL_HOME."""

    def __init__(self, root: Path) -> None:
        self.place = root
        self.home = root / "home"
        (root / "dear.py").write_text(_DEAR)
        text = _GOAL.format(place=root, python=json.dumps(sys.executable))
        self.workspace = make_repository(root / "ws", {"goal.toml": text})

    def goal(self, *arguments: str) -> Ended:
        """Run `goal` to its end."""
        env = {"GOAL_HOME": str(self.home)}
        return forking.goal(*arguments, cwd=self.workspace, env=env)

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `goal` and go on."""
        return subprocess.Popen(
            [*GOAL, *arguments],
            cwd=self.workspace,
            env=environment(GOAL_HOME=str(self.home)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def group(self) -> str:
        (name,) = batch_names(self.home)
        return name

    @property
    def state(self) -> BatchState:
        return BatchFolder(self.home / "batches" / self.group).state()

    @property
    def began(self) -> set[str]:
        """The copies whose agent waits."""
        return {path.name for path in self.place.glob("began-*")}

    @property
    def processes(self) -> list[psutil.Process]:
        """The processes of its runs."""
        processes = []
        for process in psutil.process_iter():
            try:
                command = shlex.join(process.cmdline())
            except psutil.Error:
                continue
            if str(self.place) in command and process.pid != os.getpid():
                processes.append(process)
        return processes


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    if why := probe(project.workspace, tmp_path / "scratch"):
        pytest.skip(f"no overlay works here: {why}")
    yield project
    # An agent that still waits ends by itself.
    (tmp_path / "gate").touch()


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_the_first_verified_run_ends_the_others(project: Project) -> None:
    ran = project.goal("run", "--agent", "waiting", "--agent", "short")
    assert ran.code == 0, ran.err + ran.out
    waiting, short = project.state.entries.values()
    assert (waiting.status, short.status) == ("stopped", "ended")
    assert "ended, because another run is verified" in ran.out
    assert (waiting.entry.name, short.entry.name) == ("waiting", "short")
    assert project.processes == []
    assert git(project.workspace, "status", "--porcelain") == ""
    assert f"goal apply {project.group}" in ran.out
    compared = project.goal("report", "--compare", project.group)
    assert "2 runs side by side" not in compared.out
    text = Path(compared.out.strip()).read_text()
    assert "Two runs side by side" in text
    assert text.index(short.run_id) < text.index(waiting.run_id)
    assert project.goal("apply", project.group).code == 0
    assert (project.workspace / "done.txt").read_text() == "one\n"
    again = project.goal("batch", "--resume", project.group)
    assert again.code == 0
    assert project.state.entries["1"].starts == 1


def test_all_verified_runs_are_ranked_and_the_best_is_applied(project: Project) -> None:
    ran = project.goal(
        *("run", "--all", "--json", "--best-of", "3"),
        *("--agent", "long", "--agent", "short", "--output", "../outcome.json"),
    )
    assert ran.code == 0, ran.err
    value = json.loads(ran.out)
    names = {entry["run_id"]: entry["name"] for entry in value["entries"]}
    ranking = [names[run_id] for run_id in value["ranking"]]
    assert ranking == ["short", "long 1", "long 2"]
    assert "before the next one by a smaller change" in ran.err
    outcome = json.loads((project.place / "outcome.json").read_text())
    assert outcome["run_id"] == value["ranking"][0]
    assert project.goal("apply", "--commit", project.group).code == 0
    assert (project.workspace / "done.txt").read_text() == "one\n"
    assert value["ranking"][0] in git(project.workspace, "log", "-1", "--format=%B")


def test_a_run_that_hidden_validators_never_refused_comes_first(
    project: Project,
) -> None:
    ran = project.goal("run", "--all", "--agent", "sly", "--agent", "long")
    assert ran.code == 0, ran.err + ran.out
    assert "before the next one by fewer failures of hidden validators" in ran.out
    # The newest run may be any of the group.
    assert project.goal("apply").code == 0
    assert (project.workspace / "done.txt").read_text().startswith("1\n2\n")


def test_an_interrupted_group_can_be_resumed(project: Project) -> None:
    process = project.started("run", "--agent", "waiting", "--best-of", "2")
    wait_until(lambda: len(project.began) == 2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"goal batch --resume {project.group}" in out
    assert project.processes == []
    statuses = {entry.status for entry in project.state.entries.values()}
    assert statuses == {"stopped"}


def test_without_a_verified_run_there_is_no_winner(project: Project) -> None:
    ran = project.goal("run", "--agent", "idle", "--best-of", "2")
    assert ran.code == 1, ran.err + ran.out
    assert "goal apply" not in ran.out
    states = [entry.outcome for entry in project.state.entries.values()]
    assert states == ["capped", "capped"]
    refused = project.goal("apply", project.group)
    assert refused.code == 2
    assert f"no run of the group {project.group} is verified" in refused.err
    assert project.goal("report", "--compare", project.group).code == 0


def test_all_runs_share_one_budget(project: Project) -> None:
    ran = project.goal(
        *("run", "--agent", "dear", "--best-of", "3", "--cost", "2"),
        *("--max-iterations", "50"),
    )
    assert ran.code == 1, ran.err + ran.out
    assert "the cost limit of $2.00 is reached" in ran.out
    assert project.processes == []
    spent = 0.0
    for entry in project.state.entries.values():
        summary = project.home / "runs" / entry.run_id / "summary.json"
        spent += json.loads(summary.read_text())["known_cost_usd"]
    # A call that had begun when the limit was reached is counted as well.
    assert 2.0 <= spent <= 2.0 + 3 * 0.5


def test_a_killed_group_goes_on_where_each_run_was(project: Project) -> None:
    process = project.started("run", "--agent", "waiting", "--best-of", "2")
    wait_until(lambda: len(project.began) == 2)
    runs = {entry.run_id for entry in project.state.entries.values()}
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not project.processes)
    (project.place / "gate").touch()
    resumed = project.goal("batch", "--resume", project.group)
    assert resumed.code == 0, resumed.err + resumed.out
    assert f"goal apply {project.group}" in resumed.out
    assert {entry.run_id for entry in project.state.entries.values()} == runs
    assert project.state.complete >= 1
    assert project.goal("apply", project.group).code == 0
    assert (project.workspace / "done.txt").read_text().startswith("1\n2\n")


def test_an_objective_without_a_goal_file_has_several_runs(project: Project) -> None:
    (project.workspace / "goal.toml").unlink()
    (project.workspace / "pyproject.toml").write_text("[project]\nname = 'p'\n")
    ran = project.goal(
        *("run", "Write done.txt.", "--validator", "test -e done.txt"),
        *("--agent", "claude", "--agent", "codex", "--best-of", "2", "--timeout", "1"),
    )
    # Neither program is installed here, or each has one second.
    assert ran.code == 1, ran.err + ran.out
    assert [entry.is_over for entry in project.state.entries.values()] == [True, True]
