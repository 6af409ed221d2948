"""The commands of the action for GitHub and of the template for GitLab, run in a shell as these systems run them.

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

import goalrunner
from tests.support.command_line import environment
from tests.support.workspaces import git, make_repository, write

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "goal" / "action.yml"
TEMPLATE = ROOT / ".gitlab" / "goal.gitlab-ci.yml"
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


def check_out(place: Path) -> None:
    """Check out the example's repository, as a new job does: nothing of an earlier job is left in it."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(Path(goalrunner.__file__).parent / "quickstart", place)
    once = {
        "GIT_AUTHOR_DATE": "2026-11-21T10:00:00Z",
        "GIT_COMMITTER_DATE": "2026-11-21T10:00:00Z",
    }
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "first"),
    ):
        subprocess.run(
            ["git", *words], cwd=place, check=True, env={**os.environ, **once}
        )  # always the same commit


@dataclass
class Job:
    """A job of GitHub on one machine: its folders, and what its steps hand on through files."""

    folder: Path
    prefix: Sequence[str] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)
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
        base |= {name: str(path) for name, path in files.items()}
        for step in action["runs"]["steps"]:
            if "run" not in step:
                continue
            known = {"inputs": inputs, "outputs": self.outputs}
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
        r"\$\{\{ (?:steps\.run\.)?(inputs|outputs)\.([\w-]+) \}\}", text
    )
    assert found, text
    return known[found[1]].get(found[2], "")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a workspace and a scripted uv."""
    program(tmp_path / "bin" / "uv", UV)
    check_out(tmp_path / "work")
    return tmp_path


def test_a_run_of_one_job_is_resumed_in_a_later_one(place: Path) -> None:
    first = Job(
        place,
        inputs={"options": "--max-iterations 1", "version": "1.2.3", "resume": "true"},
    )
    first.run()
    assert (first.code, first.outputs["status"], first.outputs["score"]) == (
        1,
        "capped",
        "0.0",
    ), first.log
    assert (
        place / "runner" / "uv.txt"
    ).read_text() == "tool install --quiet --force goalrunner==1.2.3\n"
    assert (
        place
        / "runner"
        / "goal-home"
        / "runs"
        / first.outputs["run-id"]
        / "events.jsonl"
    ).is_file()
    assert "::error title=unittest,file=test_slugs.py,line=16::" in first.log
    assert first.summary.startswith("## goal: capped (max iterations)\n")
    check_out(place / "work")
    second = Job(place, inputs={"options": "--max-iterations 5", "resume": "true"})
    second.run()
    assert (second.code, second.outputs["status"], second.outputs["score"]) == (
        0,
        "complete",
        "1.0",
    ), second.log
    assert second.outputs["run-id"] == first.outputs["run-id"]
    assert "::group::round 2" in second.log
    assert "::group::round 1" not in second.log
    assert (place / "runner" / "goal-results" / "junit.xml").is_file()
    assert "untitled" in (place / "work" / "slugs.py").read_text()
    third = Job(place, inputs={"resume": "true", "version": "./dist/goalrunner.whl"})
    check_out(place / "work")
    third.run()
    assert third.outputs["run-id"] != first.outputs["run-id"], (
        "a complete run is not resumed"
    )
    assert (
        (place / "runner" / "uv.txt")
        .read_text()
        .endswith("--force ./dist/goalrunner.whl\n")
    )


def test_without_user_namespaces_the_validators_run_in_place(place: Path) -> None:
    if subprocess.run(
        [*NO_NAMESPACES, "true"], check=False, capture_output=True
    ).returncode:
        pytest.skip("user namespaces cannot be switched off here")
    job = Job(place, NO_NAMESPACES)
    job.run()
    assert (job.code, job.outputs["status"]) == (0, "complete"), job.log
    assert (
        "::notice title=goal::User namespaces are not available, so validators run in place."
        in job.log
    )
    assert job.outcome()["check_environment"] == "in-place"
    usual = Job(place, inputs={"options": "--max-iterations 1"})
    check_out(place / "work")
    usual.run()
    assert "::notice" not in usual.log


@pytest.mark.parametrize(("parse", "code"), [("x or 'a'", 0), ("'a'", 1)])
def test_a_receipt_verifies_the_commit_that_is_checked_out(
    place: Path, parse: str, code: int
) -> None:
    work = place / "work"
    shutil.rmtree(work)
    test = "from p import parse\n\n\ndef test_{}():\n    assert parse({!r}) == {!r}\n"
    make_repository(
        work,
        {
            "p.py": "def parse(x):\n    return x\n",
            "test_p.py": test.format("b", "b", "b"),
        },
    )
    git(work, "switch", "-q", "-c", "change")
    write(
        work,
        {
            "p.py": f"def parse(x):\n    return {parse}\n",
            "test_q.py": test.format("empty", "", "a"),
        },
    )
    git(work, "add", "--all")
    git(work, "commit", "-q", "-m", "change")
    options = "--validator pytest"
    job = Job(place, inputs={"mode": "receipt", "base": "main", "options": options})

    job.run()

    assert job.code == code, job.log
    assert job.outputs["status"] == ("not complete" if code else "complete")
    receipt = json.loads((place / "runner/goal-results/receipt.json").read_text())
    commit = git(work, "rev-parse", "HEAD").strip()
    assert receipt["subject"][0]["digest"] == {"gitCommit": commit}
    summary = (place / "runner/GITHUB_STEP_SUMMARY").read_text()
    assert "Receipt: " in summary


def test_a_goal_file_that_is_not_valid_fails_the_job_without_a_status(
    place: Path,
) -> None:
    job = Job(place, inputs={"goal": "missing.toml"})
    job.run()
    assert job.code == 2
    assert job.outputs == {"exit-code": "2"}
    assert "Error: missing.toml" in job.log


@pytest.mark.parametrize(
    "value", ['"; touch injected; "', "$(touch injected)", "`touch injected`", "x\ny=1"]
)
def test_inputs_are_not_evaluated(place: Path, value: str) -> None:
    job = Job(
        place,
        inputs=dict.fromkeys(
            ("goal", "agent", "model", "version", "options", "resume"), value
        ),
    )
    job.run()
    assert job.code != 0
    assert not list(place.rglob("injected"))


def test_no_command_has_an_expression_in_it() -> None:
    paths = [ACTION, *(ROOT / ".github" / "workflows").glob("*.yml")]
    commands = [
        value
        for path in paths
        for value in values_of(yaml.safe_load(path.read_text()), "run")
    ]
    assert len(commands) > 10
    assert [command for command in commands if "${{" in command] == []


def test_actions_are_pinned_to_a_major_version() -> None:
    paths = [ACTION, *(ROOT / ".github" / "workflows").glob("*.yml")]
    used = [
        value
        for path in paths
        for value in values_of(yaml.safe_load(path.read_text()), "uses")
    ]
    assert len(used) > 10
    assert [
        name
        for name in used
        if not (name.startswith("./.github/") or re.search(r"@(release/)?v\d+$", name))
    ] == []


def test_the_workflows_call_steps_that_exist() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    commands = values_of(
        yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text()),
        "run",
    )
    steps = [
        step
        for command in commands
        if command.startswith(".ci/run ")
        for step in command.split()[1:]
    ]
    assert len(steps) > 5
    assert [step for step in steps if f"\n{step}() {{" not in text] == []


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


def gitlab(place: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the job of the template, with its after_script, and return how its script ended."""
    job = yaml.safe_load(TEMPLATE.read_text())["goal"]
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
    assert script(*job["after_script"]).returncode == 0
    shutil.rmtree(place / "home")  # the next job has another machine
    return done


def test_the_job_of_gitlab_is_resumed_from_its_cache(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "pip", "#!/bin/sh\n")
    program(tmp_path / "bin" / "goal", GOAL)
    work = tmp_path / "work"
    check_out(work)
    goal_file = work / "goal.toml"
    goal_file.write_text(
        goal_file.read_text().replace("max_iterations = 5", "max_iterations = 1")
    )
    first = gitlab(tmp_path)
    assert first.returncode == 1, first
    (problem, place) = json.loads((work / "goal-code-quality.json").read_text())
    assert (problem["location"]["path"], place["location"]["path"]) == (
        "goal.toml",
        "test_slugs.py",
    )
    kept = (work / ".goal-home.tar").read_bytes()
    check_out(work)
    (work / ".goal-home.tar").write_bytes(kept)
    second = gitlab(tmp_path, GOAL_RESUME="true")
    assert second.returncode == 2
    assert "--max-iterations" in second.stderr, (
        "a limit that is used up needs a higher one"
    )
    check_out(work)
    (work / ".goal-home.tar").write_bytes(kept)
    third = gitlab(tmp_path, GOAL_RESUME="true", GOAL_OPTIONS="--max-iterations 5")
    assert (third.returncode, (work / "goal-junit.xml").is_file()) == (0, True), third
    assert "\nround 2 " in third.stdout
    assert "\nround 1 " not in third.stdout
    assert json.loads((work / "goal-code-quality.json").read_text()) == []


def test_the_hook_of_pre_commit_is_a_command_that_exists() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"].split()[0] == "goal"
    assert (
        hook["entry"].split()[1]
        in __import__("goalrunner.cli.app", fromlist=["COMMANDS"]).COMMANDS
    )
    assert re.search(hook["files"], "goal.toml")
    assert not re.search(hook["files"], "goal.toml.orig")
