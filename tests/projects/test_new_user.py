"""A new user comes from `goal init` to `complete` in projects from PyPI and npm, without an obstacle.

The agent is a script that is wrong in its first round and right in the second one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.projects.prepare import (
    UNAVAILABLE,
    Place,
    environment,
    locked,
    prepare_in_a_process,
    restore,
)
from tests.projects.project import Project
from tests.projects.projects import PROJECTS
from tests.projects.running import goal_program

pytestmark = [pytest.mark.projects, pytest.mark.timeout(900)]

VALIDATORS = {
    "itsdangerous": ".venv/bin/pytest -q",
    "iniconfig": "uv run pytest -q",
    "minimist": "npm test",
}
"""The projects, and the validator that `goal init` finds."""

AGENT = """\
from pathlib import Path

path, original = Path({path!r}), Path(__file__).with_name("original")
if original.exists():
    path.write_text(original.read_text("utf-8").replace({wrong!r}, {right!r}), "utf-8")
    print("The line is right now.")
else:
    original.write_text(path.read_text("utf-8"), "utf-8")
    path.write_text(path.read_text("utf-8").replace({wrong!r}, "("), "utf-8")
    print("Done. All tests pass.")
"""


@pytest.fixture(params=VALIDATORS, ids="{}-smoke".format)
def project(request: pytest.FixtureRequest) -> Project:
    return next(project for project in PROJECTS if project.name == request.param)


@pytest.fixture
def place(project: Project) -> Iterator[Place]:
    """Return the project with its bug committed; skip if it cannot be installed."""
    done = prepare_in_a_process(project)
    if done.returncode == UNAVAILABLE:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    with locked(project.name):
        yield restore(project)


def test_from_init_to_complete(
    project: Project, place: Place, tmp_path: Path, own_home: Path
) -> None:
    environ = {
        **environment(project),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "GOAL_HOME": str(own_home),
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
    }
    write_agent(project, place.workspace, tmp_path)

    def goal(*arguments: str) -> str:
        done = subprocess.run(
            [goal_program(), *arguments],
            cwd=place.workspace,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        printed = done.stdout + done.stderr
        assert done.returncode == 0, printed
        return printed

    objective = f"Repair {project.bug.path}."
    told = goal("init", "--yes", "--agent", "two-rounds", "--objective", objective)
    assert "Next: goal check, then goal run\n" in told
    written = tomllib.loads((place.workspace / "goal.toml").read_text("utf-8"))
    assert written["validator"] == VALIDATORS[project.name]
    assert "result     ready: goal run\n" in goal("check")
    told = goal("run")
    assert "complete   2 rounds" in told
    goal("export", "--branch", "repaired")
    assert project.bug.path in goal("diff")


def write_agent(project: Project, workspace: Path, folder: Path) -> None:
    """Write the script, and the preset that makes it an agent with a name."""
    bug, script = project.bug, folder / "two_rounds.py"
    values = {"path": str(workspace / bug.path), "wrong": bug.wrong, "right": bug.right}
    script.write_text(AGENT.format_map(values), "utf-8")
    presets = folder / "config/goal/agents"
    presets.mkdir(parents=True)
    argv = json.dumps([sys.executable, str(script)])
    (presets / "two-rounds.toml").write_text(f"argv = {argv}\n", "utf-8")
