"""Jobs of GitHub and GitLab: the commands of the action and of the templates, run in a shell as these systems run them.

Only the installation is scripted: `uv` and `pip` provide the `goal` of these tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import environment

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "goal" / "action.yml"
TEMPLATE = ROOT / ".gitlab" / "goal.gitlab-ci.yml"
RECEIPT_TEMPLATE = ROOT / ".gitlab" / "goal-receipt.gitlab-ci.yml"
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
GOAL = f'#!/bin/sh\nexec "{sys.executable}" -m goalrunner "$@"\n'
UV = f"""#!/bin/sh
echo "$@" >"$RUNNER_TEMP/uv.txt"
mkdir -p "$UV_TOOL_BIN_DIR" "$UV_TOOL_DIR/goalrunner/bin"
printf '%s' '{GOAL}' >"$UV_TOOL_BIN_DIR/goal"
printf '#!/bin/sh\\nexec "{sys.executable}" "$@"\\n' >"$UV_TOOL_DIR/goalrunner/bin/python"
chmod +x "$UV_TOOL_BIN_DIR/goal" "$UV_TOOL_DIR/goalrunner/bin/python"
"""
NO_NAMESPACES = (
    *("unshare", "--user", "--map-root-user", "sh", "-c"),
    'echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set -all --inh-caps=-all "$@"',
    "sh",
)
"""Runs a command that can make no namespaces, as in a container of Docker."""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@dataclass
class Job:
    """A job of GitHub on one machine: its folders, and what its steps hand on through files."""

    folder: Path
    prefix: Sequence[str] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    """What GitHub sets for the event, such as GITHUB_BASE_REF."""
    event: Mapping[str, str] = field(default_factory=dict)
    """Fields of the event by their names: `event.merge_group.base_sha`."""
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""
    code: int = 0

    def run(self) -> None:
        """Run the shell steps of the action, up to the first that fails."""
        action = yaml.safe_load(ACTION.read_text())
        inputs = {
            name: str(value["default"]) for name, value in action["inputs"].items()
        } | dict(self.inputs)
        temporary = self.folder / "runner"
        temporary.mkdir(exist_ok=True)
        files = {
            name: temporary / name
            for name in (
                "GITHUB_ENV",
                "GITHUB_PATH",
                "GITHUB_OUTPUT",
                "GITHUB_STEP_SUMMARY",
            )
        }
        for path in files.values():
            path.write_text("")
        workspace = self.folder / "work"
        base = {
            **environment(),
            "HOME": str(self.folder),
            "GITHUB_ACTIONS": "true",
            "CI": "true",
            "RUNNER_OS": "Linux",
        }
        base |= {"RUNNER_TEMP": str(temporary), "GITHUB_WORKSPACE": str(workspace)}
        base |= {name: str(path) for name, path in files.items()} | dict(self.variables)
        for step in action["runs"]["steps"]:
            if "run" not in step:
                continue
            known = {"inputs": inputs, "outputs": self.outputs, "github": self.event}
            own = {
                name: evaluated(value, known)
                for name, value in step.get("env", {}).items()
            }
            search = os.pathsep.join(
                [
                    *reversed(files["GITHUB_PATH"].read_text().split()),
                    str(self.folder / "bin"),
                    base["PATH"],
                ]
            )
            done = subprocess.run(
                [*self.prefix, *BASH, "-c", step["run"]],
                cwd=workspace,
                env={**base, **pairs(files["GITHUB_ENV"]), **own, "PATH": search},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            self.log += done.stdout
            self.outputs |= pairs(files["GITHUB_OUTPUT"])
            if done.returncode:
                self.code = done.returncode
                return

    @property
    def summary(self) -> str:
        return (self.folder / "runner" / "GITHUB_STEP_SUMMARY").read_text()

    def outcome(self) -> Any:
        return json.loads(
            (self.folder / "runner" / "goal-results" / "outcome.json").read_text()
        )


def pairs(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def evaluated(text: str, known: Mapping[str, Mapping[str, str]]) -> str:
    found = re.fullmatch(
        r"\$\{\{ (?:steps\.run\.)?(inputs|outputs|github)\.([\w.-]+) \}\}", text
    )
    assert found, text
    return known[found[1]].get(found[2], "")


def values_of(value: Any, key: str) -> list[str]:
    """All values of a key, at any depth."""
    if isinstance(value, list):
        return [one for item in value for one in values_of(item, key)]
    if not isinstance(value, dict):
        return []
    found = [
        item for name, item in value.items() if name == key and isinstance(item, str)
    ]
    return found + [one for item in value.values() for one in values_of(item, key)]


def gitlab(
    place: Path, template: Path = TEMPLATE, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the job of a template, with its after_script, and return how its script ended."""
    (job,) = yaml.safe_load(template.read_text()).values()
    home = {
        "GOAL_HOME": str(place / "home"),
        "CI_PROJECT_DIR": str(place / "work"),
        "HOME": str(place),
    }
    env = {
        **environment(),
        **{name: str(value) for name, value in job["variables"].items()},
        **variables,
        **home,
    }
    env |= {
        "PATH": f"{place / 'bin'}{os.pathsep}{env['PATH']}",
        "CI": "true",
        "GITLAB_CI": "true",
    }

    def script(*lines: str) -> subprocess.CompletedProcess[str]:
        command = [*BASH, "-c", "\n".join(lines)]
        return subprocess.run(
            command,
            cwd=place / "work",
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    done = script(*job["before_script"], *job["script"])
    assert script(*job.get("after_script", ["true"])).returncode == 0
    shutil.rmtree(place / "home")  # the next job has another machine
    return done
