"""Receipts in CI: the workflow of the documentation and the template for GitLab, run as these systems run them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from goalrunner.receipts.statement import PREDICATE_TYPE
from tests.receipts.change_histories import (
    BASE,
    FIX_WITH_TEST,
    NO_SPACES,
    TESTS,
    Change,
    branch,
    changed,
    fork,
    merge_commit,
)
from tests.support.ci_jobs import (
    BASH,
    GOAL,
    NO_NAMESPACES,
    RECEIPT_TEMPLATE,
    ROOT,
    UV,
    Job,
    gitlab,
    program,
    values_of,
)
from tests.support.workspaces import git

yaml = pytest.importorskip("yaml")
pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "how-to" / "ci.md"
WEAKENED: Change = {
    "words.py": NO_SPACES,
    "tests/test_words.py": changed(TESTS, 'assert parse("  a ") == "a"', "parse('a')"),
}
OF_MAIN = {"GITHUB_BASE_REF": "main"}
"""What GitHub sets for a pull request into this branch."""


def workflow() -> dict[Any, Any]:
    """The workflow of the documentation, which people copy."""
    (text,) = re.findall(
        r"^```yaml\n(name: receipt\n.*?)^```",
        PAGE.read_text(),
        re.MULTILINE | re.DOTALL,
    )
    jobs: dict[Any, Any] = yaml.safe_load(text)
    return jobs


def job_of(place: Path, **about: Any) -> Job:
    """The job of that workflow, in `place / "work"`."""
    (step,) = [
        step
        for step in workflow()["jobs"]["receipt"]["steps"]
        if step.get("uses", "").startswith("./")
    ]
    return Job(place, inputs=step["with"], **about)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder for a job, with a scripted uv."""
    program(tmp_path / "bin" / "uv", UV)
    return tmp_path


def receipt_of(place: Path) -> Any:
    return json.loads((place / "runner/goal-results/receipt.json").read_text())


def test_the_head_of_a_fork_is_verified_and_attested(place: Path) -> None:
    work = fork(place / "work", BASE, FIX_WITH_TEST).root
    git(work, "remote", "remove", "origin")
    git(work, "update-ref", "refs/remotes/origin/main", "HEAD^")
    job = job_of(place, variables=OF_MAIN)

    job.run()

    assert (job.code, job.outputs["status"]) == (0, "complete"), job.log
    receipt = receipt_of(place)
    commit = git(work, "rev-parse", "HEAD").strip()
    assert receipt["subject"][0]["digest"] == {"gitCommit": commit}
    assert "### ✅ Receipt: complete" in job.summary
    assert "::error" not in job.log
    # The other job has the artifact alone.
    attested = place / "attest"
    attested.mkdir()
    shutil.copy(place / "runner/goal-results/receipt.json", attested)
    for command in values_of(workflow()["jobs"]["attest"], "run"):
        subprocess.run([*BASH, "-c", command], cwd=attested, check=True)
    predicate = json.loads((attested / "predicate.json").read_text())
    assert predicate == receipt["predicate"]


def test_a_red_job_says_why(place: Path) -> None:
    branch(place / "work", BASE, WEAKENED)
    git(place / "work", "update-ref", "refs/remotes/origin/main", "main")
    job = job_of(place, variables=OF_MAIN)

    job.run()

    assert (job.code, job.outputs["status"]) == (3, "blocked"), job.log
    assert "::error title=receipt: blocked::the validators pass only with" in job.log
    assert "### ❌ Receipt: blocked" in job.summary
    assert "weakened tests: 1" in job.summary


def test_what_a_change_writes_for_later_steps_does_not_make_the_job_green(
    place: Path,
) -> None:
    end = "import os\nfrom pathlib import Path\n\nfolder = Path(os.environ['RUNNER_TEMP'])\n"
    end += "(folder / 'end').write_text('exit 0')\n"
    end += "(folder / 'GITHUB_ENV').write_text(f'BASH_ENV={folder}/end')\n"
    branch(place / "work", BASE, {"words.py": end + NO_SPACES})
    git(place / "work", "update-ref", "refs/remotes/origin/main", "main")
    job = job_of(place, variables=OF_MAIN)

    job.run()

    assert (place / "runner" / "end").exists()
    assert (job.code, job.outputs["status"]) == (1, "not complete"), job.log


def test_a_checkout_without_the_base_is_a_clear_error(place: Path) -> None:
    origin = branch(place / "origin", BASE, FIX_WITH_TEST).root
    git(place, "clone", "-q", "--depth=1", "-b", "change", f"file://{origin}", "work")
    job = job_of(place, variables=OF_MAIN)

    job.run()

    assert job.code == 2, job.log
    assert job.outputs == {"exit-code": "2"}
    assert "::error title=receipt::" in job.log
    assert "    Error: origin/main is not a commit" in job.summary
    assert "git fetch origin main:refs/remotes/origin/main" in job.summary


def test_a_merge_group_is_compared_with_its_base(place: Path) -> None:
    work = merge_commit(place / "work", BASE, FIX_WITH_TEST).root
    base = git(work, "rev-parse", "main").strip()
    job = job_of(place, event={"event.merge_group.base_sha": base})

    job.run()

    assert job.code == 0, job.log
    assert receipt_of(place)["predicate"]["base"]["commit"] == base


def test_a_pull_request_without_a_changed_file_is_reported(place: Path) -> None:
    branch(place / "work", BASE, {})
    git(place / "work", "update-ref", "refs/remotes/origin/main", "main")
    job = job_of(place, variables=OF_MAIN)

    job.run()

    assert job.outputs["status"] == "complete", job.log
    assert "checks passed before the change" in job.summary


def test_without_user_namespaces_the_change_is_verified_in_a_clone(place: Path) -> None:
    if subprocess.run(
        [*NO_NAMESPACES, "true"], check=False, capture_output=True
    ).returncode:
        pytest.skip("user namespaces cannot be switched off here")
    branch(place / "work", BASE, FIX_WITH_TEST)
    git(place / "work", "update-ref", "refs/remotes/origin/main", "main")
    job = job_of(place, prefix=NO_NAMESPACES, variables=OF_MAIN)

    job.run()

    assert (job.code, job.outputs["status"]) == (0, "complete"), job.log
    predicate = receipt_of(place)["predicate"]
    assert predicate["environment"]["checks"] == "in-place"
    assert predicate["labels"] == ["checked in a clone"]


def test_nothing_of_a_pull_request_has_a_secret_or_a_token_that_writes() -> None:
    text = workflow()
    jobs = text["jobs"]
    # PyYAML reads the key `on` as a truth value.
    events = text["on"] if "on" in text else text[True]

    assert set(events) == {"pull_request", "merge_group"}
    assert text["permissions"] == {"contents": "read"}
    assert "secrets." not in json.dumps(jobs)
    assert "permissions" not in jobs["receipt"]
    assert jobs["receipt"]["steps"][0]["with"]["persist-credentials"] is False


def test_the_job_that_signs_runs_nothing_of_the_pull_request() -> None:
    job = workflow()["jobs"]["attest"]
    (signing,) = [
        step
        for step in job["steps"]
        if step.get("uses", "").startswith("actions/attest@")
    ]

    assert job["needs"] == "receipt"
    assert job["permissions"] == {"id-token": "write", "attestations": "write"}
    assert [name.split("@")[0] for name in values_of(job, "uses")] == [
        "actions/download-artifact",
        "actions/attest",
    ]
    assert signing["with"] == {
        "subject-path": "receipt.json",
        "predicate-type": PREDICATE_TYPE,
        "predicate-path": "predicate.json",
    }


@pytest.mark.parametrize("is_merged", [False, True])
def test_the_job_of_gitlab_verifies_a_merge_request(
    tmp_path: Path, is_merged: bool
) -> None:
    program(tmp_path / "bin" / "pip", f'#!/bin/sh\necho "$@" >>{tmp_path}/pip.txt\n')
    program(tmp_path / "bin" / "goal", GOAL)
    work = tmp_path / "work"
    (merge_commit if is_merged else branch)(work, BASE, FIX_WITH_TEST)
    base = git(work, "merge-base", "main", "change").strip()
    variables = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    if is_merged:
        target = git(work, "rev-parse", "main").strip()
        variables["CI_MERGE_REQUEST_TARGET_BRANCH_SHA"] = base = target

    done = gitlab(
        tmp_path,
        RECEIPT_TEMPLATE,
        GOAL_SETUP="pip install pytest",
        GOAL_OPTIONS="--validator pytest",
        **variables,
    )

    assert done.returncode == 0, done
    predicate = json.loads((work / "receipt.json").read_text())["predicate"]
    assert predicate["result"] == "complete"
    assert predicate["base"]["commit"] == base
    assert "test_empty" in (work / "receipt-junit.xml").read_text()
    assert (work / "receipt.md").read_text().startswith("### ✅ Receipt: complete")
    assert (tmp_path / "pip.txt").read_text().endswith("install pytest\n")
