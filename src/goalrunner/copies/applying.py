"""Bringing the change of a run into its workspace: merge, check of the merged tree, and
writing all of it or nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.doctor import take_baseline
from goalrunner.app.previous_run import LoadedRun
from goalrunner.app.pruning import remove_run
from goalrunner.app.run_options import CopyOptions, RunOptions
from goalrunner.app.run_snapshots import KeptStore
from goalrunner.app.stored_goal import frozen_goal
from goalrunner.copies.entering import inner_command, make_copy
from goalrunner.copies.merging import Conflict, merged, snapshot_with
from goalrunner.copies.run_copy import RunCopy
from goalrunner.core.errors import (
    GoalError,
    UsageError,
    WorkspaceError,
    some,
)
from goalrunner.core.field_types import Frozen
from goalrunner.core.observation import Change, Snapshot
from goalrunner.records.run_folder import (
    CHECKS,
    RunFolder,
    read_json,
    write_json,
)
from goalrunner.records.run_search import new_run_id
from goalrunner.reports.figures import count
from goalrunner.reports.layout import Fact
from goalrunner.reports.restore_lines import plan_lines
from goalrunner.reports.short_forms import SHORT_ID
from goalrunner.snapshots.paths import raw
from goalrunner.snapshots.repositories import enclosing
from goalrunner.snapshots.store import SnapshotStore

_IN_PROGRESS = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_LOG": "a bisection",
}
"""What git leaves in the folder of a repository while a command of it is not finished.
"""


@dataclass(frozen=True)
class Applied:
    """What an apply has written, and the snapshot of the state before."""

    changes: tuple[Change, ...]
    before: Snapshot


class _Journal(Frozen):
    """An apply that has begun to write."""

    run: str
    before: Snapshot
    target: Snapshot
    paths: tuple[str, ...]


def applied_lines(run_id: str, workspace: str, applied: Applied) -> Iterator[Fact]:
    """Yield the changes that were made, and the command that undoes them."""
    yield from plan_lines(
        "applied", workspace, f"has the change of {run_id}", applied.changes
    )
    before = applied.before.id[:SHORT_ID]
    yield Fact("before", f"kept as snapshot {before}; to undo the apply:")
    yield Fact("", f"goal restore {run_id} --snapshot {before}", whole=True)


class Application:
    """The change of one run, to be applied to its workspace, which no other run can use
    until `close`.
    """

    def __init__(
        self,
        folder: RunFolder,
        loaded: LoadedRun,
        home: Path,
        environ: Mapping[str, str],
    ) -> None:
        state = loaded.state
        if state.base is None or state.snapshot is None:
            raise UsageError(
                f"run {folder.run_id} took no snapshots, "
                "so there is no change to apply",
                f"see goal show {folder.run_id}",
            )
        self._run, self._loaded = folder, loaded
        self._home, self._environ = home, environ
        self._start, self._end = state.base, state.snapshot
        self.workspace = Path(state.workspace)
        self._refuse_unready()
        self._kept = KeptStore(self.workspace, home, environ, start=folder.start)
        self._store = self._kept.store
        self._journal = home / "applies" / f"{self._store.folder.name}.json"

    def close(self) -> None:
        """Release the workspace."""
        self._store.close()

    def _refuse_unready(self) -> None:
        """Raise UsageError if the workspace is gone, or git has an unfinished command
        there.
        """
        if not self.workspace.is_dir():
            raise UsageError(
                f"the workspace {self.workspace} is gone",
                f"goal export {self._run.run_id} --patch writes the change as a patch",
            )
        repository = enclosing(self.workspace)
        if repository is None:
            return
        for name, what in _IN_PROGRESS.items():
            if (repository.git_dir / name).exists():
                raise UsageError(
                    f"{what} is not finished in {repository.root}",
                    "finish or abort it first; git status says how",
                )

    async def undo_interrupted(self) -> str:
        """Undo an apply that was killed while it wrote; return a line about it, or
        nothing. Raise WorkspaceError.
        """
        journal: _Journal | None = read_json(self._journal, _Journal)
        if journal is None:
            return ""
        between = await self._store.snapshot()
        lost = await self._edited(journal, between)
        await self._store.restore(journal.before, journal.paths)
        self._journal.unlink()
        note = (
            f"an apply of run {journal.run} had been interrupted; "
            "its files were put back"
        )
        if not lost:
            return note
        return (
            f"{note}\nchanged since then, and put back as well: {some(lost)}; "
            f"to get one again: goal restore {journal.run} "
            f"--snapshot {between.id[:SHORT_ID]} --path {lost[0]}"
        )

    async def _edited(self, journal: _Journal, between: Snapshot) -> list[str]:
        """Return the paths whose content comes neither from before nor from the apply.

        A person has changed them after the apply was killed, or it wrote only a part.
        """
        found, before, target = [
            await self._store.entries(snapshot)
            for snapshot in (between, journal.before, journal.target)
        ]
        return [
            path
            for path in journal.paths
            if path in found and found[path] not in (before.get(path), target.get(path))
        ]

    async def perform(self, *, check: bool | None) -> Applied:
        """Merge, check and write.

        `check` None: if the workspace has changed since the run began.

        Raise UsageError for conflicts, or if validators fail on the merged tree; then
        nothing was written. Raise WorkspaceError if a file cannot be written; then all
        others were put back.
        """
        now = await self._store.snapshot()
        await self._kept.require(self._start, self._end)
        merge = await merged(self._store, self._start, self._end, now)
        if merge.conflicts:
            raise self._conflict(merge.conflicts)
        if not merge.entries:
            return Applied((), now)
        target = await snapshot_with(self._store, now, merge.entries)
        moved = bool(await self._store.changes(self._start, now))
        if moved if check is None else check:
            self._check(target, tuple(merge.entries))
        return await self._write(now, target, tuple(merge.entries))

    def _conflict(self, conflicts: tuple[Conflict, ...]) -> UsageError:
        listed = "\n".join(f"  {one.path}: {one.why}" for one in conflicts[:10])
        more = f"\n  and {len(conflicts) - 10} more" if len(conflicts) > 10 else ""
        run = self._run.run_id
        return UsageError(
            f"the change of run {run} conflicts with {self.workspace} in "
            f"{count(len(conflicts), 'path')}; nothing was written"
            f"\n{listed}{more}",
            f"goal export {run} --patch -o {run}.patch keeps it as a patch; "
            f"goal export {run} --branch NAME as a branch to merge",
        )

    def _check(self, target: Snapshot, paths: tuple[str, ...]) -> None:
        """Run the validators on the merged tree, in a copy of the workspace.

        Raise UsageError if one fails.
        """
        folder = RunFolder.create(self._home, new_run_id(self._home, "apply"), CHECKS)
        try:
            copy = make_copy(folder, self.workspace, self._home, self._environ)
            write_json(
                copy.folder / "check.json",
                {"target": target.model_dump(), "paths": paths},
            )
            arguments = ["apply", str(self._run.path)]
            command = inner_command(copy, self._home, arguments, self._environ)
            try:
                done = command.run()
            finally:
                command.close()
        finally:
            with contextlib.suppress(UsageError):
                remove_run(self._home, folder)
        try:
            problem = json.loads(done.stdout)["problem"]
        except (ValueError, KeyError, TypeError):
            problem = f"the check ended with exit code {done.returncode}"
        if problem:
            raise UsageError(
                f"the merged tree is not verified, and nothing was written: {problem}",
                f"goal apply {self._run.run_id} --no-check applies it all the same",
            )

    async def _write(
        self, now: Snapshot, target: Snapshot, paths: tuple[str, ...]
    ) -> Applied:
        journal = _Journal(run=self._run.run_id, before=now, target=target, paths=paths)
        # After a kill from here on, the next apply finds the journal and puts the files
        # back.
        write_json(self._journal, journal.model_dump())
        try:
            changes = await self._store.restore(target, paths)
        except BaseException:
            with contextlib.suppress(WorkspaceError):
                await self._store.restore(now, paths)
                self._journal.unlink()
            raise
        self._journal.unlink()
        return Applied(changes, now)


def refuse_commit(workspace: Path) -> None:
    """Raise UsageError if nothing can be committed there: no repository, or no branch
    is checked out.
    """
    repository = enclosing(workspace)
    if repository is None:
        raise UsageError(
            f"{workspace} is in no git repository, so nothing can be committed",
            "leave --commit out",
        )
    code, _, _ = _git(workspace, "symbolic-ref", "--quiet", "HEAD")
    if code != 0:
        raise UsageError(
            f"no branch is checked out in {repository.root}, "
            "so the commit would be lost easily",
            "git switch BRANCH, or leave --commit out",
        )


def commit_paths(workspace: Path, paths: Sequence[str], message: str) -> None:
    """Commit these paths and no others, as the person whose configuration git has.

    Raise WorkspaceError if git refuses.
    """
    listed = b"".join(raw(path) + b"\0" for path in paths)
    pathspec = ("--pathspec-from-file=-", "--pathspec-file-nul")
    code, _, errors = _git(workspace, "add", "--all", *pathspec, stdin=listed)
    if code == 0:
        only = ("commit", "--quiet", "--only", f"--message={message}", *pathspec)
        code, _, errors = _git(workspace, *only, stdin=listed)
    if code != 0:
        words = errors.decode(errors="replace").strip()
        raise WorkspaceError(
            f"the change is applied, but git could not commit it: {words}",
            "commit it yourself: git status shows it",
        )


def _git(
    workspace: Path, *arguments: str, stdin: bytes = b""
) -> tuple[int, bytes, bytes]:
    """Run git as the person does, with its configuration and hooks."""
    done = subprocess.run(
        ["git", "--literal-pathspecs", *arguments],
        cwd=workspace,
        input=stdin,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def check_merged_tree(
    copy: RunCopy, run: RunFolder, home: Path, inside: CopyOptions
) -> str:
    """Write a merged tree into the copy that this process is in, and run the
    validators. Return what fails, or nothing.
    """
    request = json.loads((copy.folder / "check.json").read_bytes())
    target = Snapshot(**request["target"])
    goal = frozen_goal(run, os.environ, runnable=False)
    store = SnapshotStore(Path(goal.workspace.path), home, folder=copy.store)
    try:

        async def write() -> None:
            await store.snapshot()
            await store.restore(target, request["paths"])

        asyncio.run(write())
        store.close()
        result = take_baseline(goal, RunOptions(home=home, copy=inside))
    except GoalError as error:
        return error.message
    finally:
        store.close()
    if result.problem:
        return result.problem
    if result.event is None:
        # A judge alone, or hidden validators, cannot say it of the merged tree.
        return "no validator runs on it"
    red = [one for one in result.event.results if not one.passed]
    return "; ".join(f"{one.name} fails: {one.feedback[:300]}" for one in red)
