"""A run of a batch as an integration needs it: its change as a commit, its checks."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from goalrunner.app.previous_run import load_run
from goalrunner.app.run_snapshots import KeptStore
from goalrunner.app.stored_goal import frozen_table
from goalrunner.batches.batch_branch import BATCH_TRAILER
from goalrunner.batches.integration_rules import NOTHING_CHANGED
from goalrunner.copies.committing import commit_tree, repository_of
from goalrunner.copies.conversions import CommitFiles
from goalrunner.copies.merging import (
    BRANCH,
    MergeConflict,
    MergedTree,
    merge_tree,
    merged,
    snapshot_with,
)
from goalrunner.core.errors import GoalError, RecordError, some
from goalrunner.core.observation import Snapshot
from goalrunner.exports.change import commit_message
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.ignore_rules import Start
from goalrunner.snapshots.objects import Entry

_CHECK_TABLES = ("validators", "workspace", "redact")
"""The tables of a goal on which the result of its validators depends."""


class NotIntegrated(GoalError):
    """The change of a run does not come onto the branch; the message says why."""


@dataclass(frozen=True)
class MergedCommit:
    """A commit with the change of a run, which no branch has yet."""

    commit: str
    """The commit that it was merged onto, if that has the change already."""
    is_verified: bool
    """Whether a run without validators has verified this very tree."""


@dataclass(frozen=True)
class BatchGoals:
    """The id and the goal files of a batch, for the commits of its runs."""

    batch_id: str
    goal_files: frozenset[Path]
    """The files of its goals, without links."""


class BatchRun:
    """A run of a batch that has ended, and the commits that are made of it.

    Raise NotIntegrated if its records are gone, or if it took no snapshots.
    """

    def __init__(
        self, run: RunFolder, batch: BatchGoals, home: Path, environ: Mapping[str, str]
    ) -> None:
        try:
            loaded = load_run(run)
            table = frozen_table(run)
        except RecordError as error:
            raise NotIntegrated(f"its run cannot be read: {error.message}") from error
        state = loaded.state
        if state.base is None or state.snapshot is None:
            raise NotIntegrated(NOTHING_CHANGED)
        outcome = loaded.outcome(run)
        # The log of the run is the proof, whatever that of the batch says.
        self.is_verified = outcome.passed
        self.run = run
        self.start, self._end = state.base, state.snapshot
        # Goals that name one folder by different links share its checks.
        self.workspace = Path(os.path.realpath(state.workspace))
        self.base = Start(run.start).commit or ""
        """The commit that was checked out when the run began; empty without one."""
        checks = {name: table.get(name) for name in _CHECK_TABLES}
        self.has_validators = bool(checks["validators"])
        self.checks = json.dumps([str(self.workspace), checks], default=str)
        """What its validators run; equal texts give equal results."""
        message = commit_message(outcome)
        self._message = f"{message}{BATCH_TRAILER}: {batch.batch_id}\n"
        self._batch, self._environ = batch, environ
        outputs = table.get("workspace", {}).get("outputs", ())
        self._kept_store = KeptStore(self.workspace, home, environ, outputs, run.start)
        self._store = self._kept_store.store

    async def commit_onto(self, tip: str) -> MergedCommit:
        """Commit the change, merged onto a commit.

        Raise NotIntegrated for conflicts, and for a change that no commit can have.
        """
        if not self.is_verified:
            raise NotIntegrated("its run is not complete")
        await self._kept_store.require(self.start, self._end)
        changes = await self._store.changes(self.start, self._end)
        # A snapshot also notes which repositories there are, which no commit can have.
        paths = [change.path for change in changes if change.kind != "repository"]
        if not paths:
            raise NotIntegrated(NOTHING_CHANGED)
        await self._refuse_nested(paths)
        # Only files that the run changed are merged, so only these are converted.
        onto = await self._files(tip).snapshot_at(paths)
        try:
            tree = await merge_tree(self._store, self.start, self._end, onto, BRANCH)
        except MergeConflict as error:
            listed = [f"{item.path}: {item.why}" for item in error.conflicts]
            raise NotIntegrated(f"conflict in {some(listed)}") from error
        is_verified = False
        # A judge is not asked again: its verdict holds for the tree that it has seen.
        if not self.has_validators:
            _, differing = await self._differing(tip)
            is_verified = not differing
        commit = tip
        # A branch that has the change already gets no empty commit.
        if tree.entries:
            commit = await commit_tree(
                self._store, tree, tip, self._message, self._environ
            )
        return MergedCommit(commit, is_verified=is_verified)

    async def _refuse_nested(self, paths: Collection[str]) -> None:
        """Raise NotIntegrated if a changed file is in a repository of its own.

        A commit of the outer repository cannot have it.
        """
        nested = (*await self._nested(self.start), *await self._nested(self._end))
        for path in paths:
            if path.startswith(nested):
                raise NotIntegrated(
                    f"{path} is in a submodule or another repository of its own; "
                    f"goal apply {self.run.run_id} changes it in the workspace"
                )

    async def _nested(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the folders of repositories in the workspace, each with a slash."""
        if not snapshot.repository:
            return ()
        text = await self._store.git.ask("cat-file", "blob", snapshot.repository)
        folders = [path.removesuffix(".git") for path in json.loads(text)]
        # One without a name is the workspace, and "../" is a folder around it.
        return tuple(
            folder for folder in folders if folder and not folder.startswith("../")
        )

    def _files(self, commit: str) -> CommitFiles:
        repository = repository_of(self.workspace)
        return CommitFiles(self._store, repository, commit, self._environ)

    async def _differing(self, commit: str) -> tuple[Snapshot, list[str]]:
        """Return a commit as git checks it out, and the paths in which it differs from
        the start of the run.

        Files of repositories in the workspace and new goal files are left out: a commit
        has none of them.
        """
        nested = await self._nested(self.start)
        work_tree = await self._files(commit).snapshot_like(self.start)
        differing: list[str] = []
        for change in await self._store.changes(work_tree, self.start):
            if change.kind == "repository" or change.path.startswith(nested):
                continue
            is_goal_file = (
                PurePosixPath(change.path).name == "goal.toml"
                or self.workspace / change.path in self._batch.goal_files
            )
            if not (is_goal_file and change.kind == "added"):
                differing.append(change.path)
        return work_tree, differing

    async def commit_uncommitted(
        self, tip: str, not_checked_out: Collection[Path]
    ) -> tuple[str, tuple[str, ...]]:
        """Commit what was not committed in the workspace when the run began.

        Return the commit, and the paths; the tip and nothing if all was committed.
        Goal files that are not in git are left out, and so is content that snapshots do
        not keep. `not_checked_out` are the files that a sparse checkout leaves out.
        """
        if not self.base:
            return tip, ()
        await self._kept_store.require(self.start)
        work_tree, differing = await self._differing(self.base)
        entries = await self._store.entries(self.start)
        uncommitted: dict[str, Entry | None] = {}
        for path in differing:
            entry = entries.get(path)
            if entry is not None:
                can_commit = entry.stored
            else:
                # It is not in the work tree: removed, unless git never checked it out.
                can_commit = self.workspace / path not in not_checked_out
            if can_commit:
                uncommitted[path] = entry
        # The tip may have the uncommitted changes of another work tree already.
        onto = await self._files(tip).snapshot_at(uncommitted)
        end = await snapshot_with(self._store, work_tree, uncommitted)
        merge = await merged(self._store, work_tree, end, onto, BRANCH)
        if not merge.entries:
            return tip, ()
        paths = tuple(merge.entries)
        listed = "".join(f"  {path}\n" for path in paths)
        message = (
            f"Uncommitted changes when batch {self._batch.batch_id} began\n\n"
            f"No check has run on them alone. They are in {self.workspace}:\n{listed}\n"
            f"{BATCH_TRAILER}: {self._batch.batch_id}\n"
        )
        tree = MergedTree(onto, end, merge.entries)
        commit = await commit_tree(self._store, tree, tip, message, self._environ)
        return commit, paths
