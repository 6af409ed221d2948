"""The action for GitHub and the template for GitLab, run as these systems run them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import goalrunner
from tests.support.ci_jobs import (
    ACTION,
    GOAL,
    NO_NAMESPACES,
    ROOT,
    UV,
    Job,
    gitlab,
    program,
    values_of,
)

yaml = pytest.importorskip("yaml")


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
@pytest.mark.parametrize("mode", ["run", "receipt"])
def test_inputs_are_not_evaluated(place: Path, value: str, mode: str) -> None:
    names = ("goal", "agent", "model", "version", "options", "resume", "base")
    job = Job(place, inputs={**dict.fromkeys(names, value), "mode": mode})
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
