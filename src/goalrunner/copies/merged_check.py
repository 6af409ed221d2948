"""The check of a merged tree before it is written or committed: the validators of runs,
in a copy of the workspace.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.app.doctor import take_baseline
from goalrunner.app.preflight import why_clone
from goalrunner.app.pruning import ended_checks, remove_run
from goalrunner.app.run_options import CopyOptions, RunOptions
from goalrunner.app.stored_goal import frozen_goal
from goalrunner.copies.entering import goal_command, inner_command, make_copy
from goalrunner.copies.run_copy import RunCopy
from goalrunner.core.errors import EnvironmentFailed, GoalError, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.observation import Snapshot
from goalrunner.exports.change import person_environment
from goalrunner.records.run_folder import CHECKS, RunFolder, write_json
from goalrunner.records.run_search import new_run_id
from goalrunner.records.writer_lock import WriterLock
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.watchdog import end_with_parent

_REQUEST = "check.json"
_ABANDONED = 60.0
"""Seconds after which the folder of a check without a process is removed. A new folder
has no lock for a moment.
"""
_NO_VALIDATOR = "no validator runs on it"
# A hook could change files, and the others could make git take a changed file for the
# same.
_SETTINGS = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
    "-c", "core.trustctime=true", "-c", "core.checkStat=default",
)  # fmt: skip
_LONGEST = 300
"""Characters of a validator's output in a message."""


def problem_of_tree(
    target: Snapshot,
    runs: Sequence[RunFolder],
    workspace: Path,
    home: Path,
    environ: Mapping[str, str],
) -> str:
    """Return which validators of these runs fail on a tree; empty if all pass.

    They see the tree in place of the files of the workspace, with its repository and,
    except in a clone, its ignored files. The workspace itself is not changed. Raise
    EnvironmentFailed if a copy is not possible.
    """
    request = {"target": target.model_dump()}
    return _problem(request, runs, workspace, home, environ)


def problem_of_commit(
    commit: str,
    runs: Sequence[RunFolder],
    workspace: Path,
    home: Path,
    environ: Mapping[str, str],
) -> str:
    """Return which validators of these runs fail on a commit; empty if all pass.

    They see what git checks out of it, and the ignored files of the workspace, and no
    other file. All runs are of this workspace. Raise as `problem_of_tree` does.
    """
    return _problem({"commit": commit}, runs, workspace, home, environ)


def _problem(
    request: Mapping[str, object],
    runs: Sequence[RunFolder],
    workspace: Path,
    home: Path,
    environ: Mapping[str, str],
) -> str:
    """Return what the validators of runs say of a tree in a copy of the workspace."""
    # They were left by a kill, and their copies would keep a frozen base.
    for check in ended_checks(home, time.time() - _ABANDONED):
        remove_run(home, check)
    folder = RunFolder.create(home, new_run_id(home, "apply"), CHECKS)
    # While it is held, `goal prune` and other checks leave the folder alone.
    lock = WriterLock(folder.events)
    try:
        why = " ".join(why_clone(_goal_of(run)) for run in runs).strip()
        copy = make_copy(folder, workspace, home, environ, clone=why)
        paths = [str(run.path) for run in runs]
        write_json(copy.folder / _REQUEST, {**request, "runs": paths})
        # The variable INSIDE makes this `goal apply` check the tree, and apply nothing.
        program = goal_command(["apply", str(runs[0].path)])
        with contextlib.closing(inner_command(copy, home, program, environ)) as inner:
            done = inner.run()
    finally:
        lock.close()
        with contextlib.suppress(UsageError):
            remove_run(home, folder)
    try:
        return str(json.loads(done.stdout)["problem"])
    except (ValueError, KeyError, TypeError):
        # It was killed, for example because memory was short: no validator is red.
        raise EnvironmentFailed(
            f"the check of the merged tree ended with exit code {done.returncode} "
            "and without a result",
            "run the command again",
        ) from None


def check_requested_tree(copy: RunCopy, home: Path, inside: CopyOptions) -> str:
    """Write the requested tree into the copy that this process is in, and run the
    validators. Return what fails, or nothing.
    """
    # If `goal apply` is killed, validators would run on, and no one reads the result.
    end_with_parent(0)
    request = json.loads((copy.folder / _REQUEST).read_bytes())
    runs = [RunFolder(Path(path)) for path in request["runs"]]
    try:
        goals = list(map(_goal_of, runs))
        if "commit" in request:
            # A clone has another path; elsewhere, it is the overlay.
            root = inside.inside(Path(copy.read().root))
            check_out(request["commit"], root)
        else:
            target = Snapshot(**request["target"])
            workspace = inside.inside(Path(goals[0].workspace.path))
            _write(target, workspace, copy, home)
    except GoalError as error:
        return error.message
    options = RunOptions(home=home, copy=inside)
    problems = []
    for run, goal in zip(runs, goals, strict=True):
        problem = _problem_of_goal(goal, options)
        if problem and len(runs) > 1:
            problem = f"of run {run.run_id}: {problem}"
        problems.append(problem)
    return "; ".join(filter(None, problems))


def _goal_of(run: RunFolder) -> Goal:
    """Return the goal of a run, with its hidden validators like any others.

    No agent works here that could learn from their output, and only visible ones have a
    baseline.
    """
    return without_hidden(frozen_goal(run, os.environ, runnable=False))


def without_hidden(goal: Goal) -> Goal:
    """Return the goal with its hidden validators like any others."""
    visible = [spec.model_copy(update={"hidden": False}) for spec in goal.validators]
    return goal.model_copy(update={"validators": tuple(visible)})


def _write(target: Snapshot, workspace: Path, copy: RunCopy, home: Path) -> None:
    """Give the copy exactly the files of the tree.

    What the copy was made with does not count, as far as it is in snapshots: a person
    may have changed files since, and an agent without a sandbox may have changed the
    frozen base.
    """
    store = SnapshotStore(workspace, home, folder=copy.store)

    async def write() -> None:
        await store.snapshot()
        await store.restore(target)

    with contextlib.closing(store):
        asyncio.run(write())


def check_out(commit: str, root: Path) -> None:
    """Give the copy exactly the files of a commit, besides ignored ones.

    Git does it with the configuration of the person, so that filters such as those of
    Git LFS run. Raise EnvironmentFailed.
    """
    flagged_paths: list[bytes] = []
    for row in _git(root, "ls-files", "-v", "-z").split(b"\0"):
        flag, _, path = row.partition(b" ")
        # Git would not look at these files: a lower letter stands for
        # assume-unchanged, and S for skip-worktree, with which a sparse checkout
        # leaves out files.
        is_flagged = flag.islower() or flag == b"S"
        if is_flagged and os.path.lexists(root / os.fsdecode(path)):
            flagged_paths.append(path)
    if flagged_paths:
        names = b"\0".join(flagged_paths)
        for option in ("--no-assume-unchanged", "--no-skip-worktree"):
            _git(root, "update-index", option, "-z", "--stdin", stdin=names)
    _git(root, "checkout", "--quiet", "--force", "--detach", commit)
    _git(root, "clean", "-d", "--force", "--quiet")


def _git(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Return the output of git with the configuration of the person.

    Raise EnvironmentFailed if it fails.
    """
    done = subprocess.run(
        ["git", *_SETTINGS, *arguments],
        cwd=root,
        # A variable such as GIT_DIR could name the repository of the person.
        env=person_environment(os.environ),
        input=stdin,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip()
        raise EnvironmentFailed(f"git {arguments[0]} failed in the copy: {words}")
    return done.stdout


def _problem_of_goal(goal: Goal, options: RunOptions) -> str:
    # A judge alone cannot say it of the merged tree, and neither can a function that
    # checks a response.
    if not any(spec.run for spec in goal.validators):
        return _NO_VALIDATOR
    result = take_baseline(goal, options)
    if result.problem:
        return result.problem
    if result.event is None:
        return _NO_VALIDATOR
    red = [item for item in result.event.results if not item.passed]
    return "; ".join(
        f"{item.name} fails: {(item.feedback or item.remark)[:_LONGEST]}"
        for item in red
    )
