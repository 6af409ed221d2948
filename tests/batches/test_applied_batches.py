"""`goal apply BATCH`: whole integrations, with the real checks in copies."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.checking.overlay import probe
from tests.support import forking
from tests.support.command_line import GOAL, Ended, environment
from tests.support.ended_batch import Work, ended_batch
from tests.support.workspaces import git, listing, make_repository, write

_LINES = "".join(f"{number}\n" for number in range(1, 10))
_WORKS = (
    Work("top", "sed -i 's/^1$/one/' a.txt", "grep -q one a.txt"),
    Work("clash", "sed -i 's/^1$/uno/' a.txt", "grep -q uno a.txt"),
    Work(
        "end", "sed -i 's/^9$/nine/' a.txt", "test ! -e forbidden && test -e mine.txt"
    ),
    Work("red", "echo > forbidden", "test -e forbidden"),
    Work("gone", "rm b.txt", "test ! -e b.txt && grep -q dependency deps/lib.txt"),
    Work("edit", "echo more >> b.txt", "test -s b.txt"),
)
_SUBJECTS = [
    "Uncommitted changes when batch night began",
    "Objective of top",
    "Objective of end",
    "Objective of gone",
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    files = {"a.txt": _LINES, "b.txt": "b\n", ".gitignore": "deps/\n"}
    root = make_repository(tmp_path / "ws", files)
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    if why := probe(root, tmp_path / "scratch"):
        pytest.skip(f"no overlay works here: {why}")
    write(root, {"deps/lib.txt": "dependency\n", "mine.txt": "not committed\n"})
    return root


def _apply(
    batch: BatchFolder, cwd: Path, home: Path, *arguments: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*GOAL, "apply", batch.batch_id, *arguments],
        cwd=cwd,
        env=environment(GOAL_HOME=str(home)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _batch(*arguments: str, cwd: Path, home: Path) -> Ended:
    env = {"GOAL_HOME": str(home)}
    return forking.goal("batch", *arguments, cwd=cwd, env=env)


def _ended(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=300)
    return Ended(process.returncode, out, err)


def _state(root: Path) -> tuple[object, ...]:
    return (
        listing(root),
        git(root, "status", "--porcelain=v2", "--branch"),
        git(root, "stash", "list"),
    )


def _subjects(root: Path) -> list[str]:
    log = git(root, "log", "--format=%s", "main..goal/night")
    return log.splitlines()[::-1]


@pytest.mark.slow
def test_six_goals_of_which_two_conflict_and_one_is_red(
    workspace: Path, home: Path
) -> None:
    batch = ended_batch(home, workspace, _WORKS)
    # What the person does after the batch is not on the branch, and no check sees it.
    (workspace / "mine.txt").unlink()
    write(workspace, {"forbidden": "later\n", "b.txt": "later\n"})
    before = _state(workspace)
    applied = _ended(_apply(batch, workspace, home))
    assert applied.code == 1, applied.err
    assert _state(workspace) == before
    assert _subjects(workspace) == _SUBJECTS
    lines = applied.out.splitlines()
    assert lines.pop(0).startswith("integrates 6 changes, one after another onto")
    assert [line.split()[0] for line in lines[:6]] == [
        "taken",
        "left",
        "taken",
        "left",
        "taken",
        "left",
    ]
    same_lines = "a.txt: the run and the branch changed the same lines"
    assert f"clash: conflict in {same_lines}" in lines[1]
    red = "the merged tree is red: of run run3-end: check-end fails"
    assert f"red: {red}" in lines[3]
    removed = "b.txt: the branch removed it, and the run changed it"
    assert f"edit: conflict in {removed}" in lines[5]
    assert "goal/night in " in applied.out
    assert "3 verified changes" in applied.out
    assert "what was not committed there: mine.txt" in applied.out
    assert "goal apply run2-clash" in applied.out
    assert list((home / "check-runs").iterdir()) == []
    again = _ended(_apply(batch, workspace, home, "--json"))
    assert again.code == 1
    values = json.loads(again.out)
    assert [bool(entry["commit"]) for entry in values["entries"]] == [
        True,
        False,
        True,
        False,
        True,
        False,
    ]
    assert values["branch"] == "goal/night"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_integration_that_is_killed_again_and_again_comes_to_the_same_branch(
    workspace: Path, home: Path
) -> None:
    batch = ended_batch(home, workspace, _WORKS)
    before = _state(workspace)
    checks = home / "check-runs"
    for phase in ("checks", "has decided", "checks", "has decided"):
        process = _apply(batch, workspace, home)
        size = batch.log.stat().st_size
        earlier = set(checks.glob("*/copy/check.json"))
        while process.poll() is None:
            is_checking = set(checks.glob("*/copy/check.json")) - earlier
            has_decided = batch.log.stat().st_size > size
            if is_checking if phase == "checks" else has_decided:
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert _ended(_apply(batch, workspace, home)).code == 1
    assert _state(workspace) == before
    assert _subjects(workspace) == _SUBJECTS
    decided = [
        json.loads(line)["key"]
        for line in batch.log.read_text().splitlines()
        if "entry_integrated" in line
    ]
    assert decided == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.slow
def test_folders_work_trees_and_repositories_are_checked_where_they_are(
    workspace: Path, home: Path, tmp_path: Path
) -> None:
    package = workspace / "packages" / "x"
    write(package, {"x.txt": "x\n"})
    git(workspace, "add", "packages")
    git(workspace, "commit", "-qm", "packages")
    tree, other = tmp_path / "tree", tmp_path / "other"
    git(workspace, "worktree", "add", "-q", "-b", "feature", str(tree))
    git(tmp_path, "clone", "-q", str(workspace), str(other))
    git(other, "config", "user.name", "Ada")
    git(other, "config", "user.email", "ada@example.org")
    works = (
        Work("root", "echo 1 > new", "test -e new && test -e mine.txt"),
        Work("inner", "echo 2 > in", "test -e ../../new", workspace=package),
        Work("tree", "echo 3 > t", "test -e packages/x/in", workspace=tree),
        Work("other", "echo 4 > new", "test ! -e mine.txt", workspace=other),
        Work("breaks", "mv a.txt new", "true", workspace=tree),
    )
    batch = ended_batch(home, workspace, works)
    before = [_state(root) for root in (workspace, tree, other)]
    applied = _ended(_apply(batch, workspace, home, "--json"))
    assert [_state(root) for root in (workspace, tree, other)] == before
    entries = json.loads(applied.out)["entries"]
    reasons = {entry["name"]: entry["reason"] for entry in entries}
    assert {name for name, reason in reasons.items() if not reason} == {
        "root",
        "inner",
        "tree",
        "other",
    }
    assert "new: both the run and the branch added it" in reasons["breaks"]
    assert _subjects(workspace) == [
        "Uncommitted changes when batch night began",
        "Objective of root",
        "Objective of inner",
        "Objective of tree",
    ]
    assert _subjects(other) == ["Objective of other"]


@pytest.mark.slow
def test_a_commit_is_checked_in_a_clone_where_no_overlay_is_possible(
    workspace: Path, home: Path
) -> None:
    works = (
        Work("new", "echo 1 > new", "test -e new && test ! -e deps", clone=True),
        Work("red", "rm new || rm a.txt", "test ! -e a.txt && false", clone=True),
    )
    batch = ended_batch(home, workspace, works)
    before = _state(workspace)
    applied = _ended(_apply(batch, workspace, home))
    assert applied.code == 1, applied.err
    assert _state(workspace) == before
    assert _subjects(workspace)[1:] == ["Objective of new"]


_GOAL = """\
objective = "Make {name}."
validator = "test -e {name}"

[agent]
use = "command"
command = ["touch", "{name}"]
"""


@pytest.mark.slow
def test_a_batch_is_applied_after_its_runs_and_later_what_has_become_complete(
    workspace: Path, home: Path
) -> None:
    write(workspace, {f"{name}.toml": _GOAL.format(name=name) for name in ("x", "y")})
    broken = _GOAL.format(name="z").replace("touch", "false")
    write(workspace, {"z.toml": broken})
    names = ("x.toml", "y.toml", "z.toml")
    ran = _batch(
        "--apply", "--name", "night", "--json", *names, cwd=workspace, home=home
    )
    assert ran.code == 1, ran.err
    lines = [json.loads(line) for line in ran.out.splitlines()]
    integrated = [line for line in lines if line["type"] == "entry_integrated"]
    assert [bool(line["commit"]) for line in integrated] == [True, True]
    assert {entry["commit"] for entry in lines[-1]["entries"]} >= {
        line["commit"] for line in integrated
    }
    assert _subjects(workspace) == [
        "Uncommitted changes when batch night began",
        "Make x.",
        "Make y.",
    ]
    again = _batch("--apply", "night", cwd=workspace, home=home)
    assert again.code == 0, again.err
    assert "2 verified changes" in again.out


def test_a_batch_that_is_to_be_applied_is_refused_outside_of_git(
    tmp_path: Path, home: Path
) -> None:
    plain = tmp_path / "plain"
    write(plain, {"x.toml": _GOAL.format(name="x")})
    refused = _batch("--apply", "x.toml", cwd=plain, home=home)
    assert refused.code == 2
    assert "plain is in no git repository" in refused.err
    assert not (home / "batches").exists()
