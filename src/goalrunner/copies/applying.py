"""Bringing the change of a run into its workspace or onto a commit: all of it, or
nothing.

The steps can be used without each other, and for several runs one after another:
`merging.merge_tree` makes a merged tree, `merged_check.problem_of_tree` runs validators
on it, and `committing.commit_tree` commits it. `Application` has what is particular to
the run and its workspace.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from shutil import disk_usage

from goalrunner.app.previous_run import LoadedRun
from goalrunner.app.run_snapshots import KeptStore
from goalrunner.app.stored_goal import frozen_table
from goalrunner.copies.committing import commit_tree, repository_of
from goalrunner.copies.conversions import CommitFiles
from goalrunner.copies.merged_check import problem_of_commit, problem_of_tree
from goalrunner.copies.merging import BRANCH, MergedTree, merge_tree, refuse_unseen
from goalrunner.core.errors import GoalError, UsageError, WorkspaceError, some
from goalrunner.core.field_types import Frozen
from goalrunner.core.labels import Label
from goalrunner.core.observation import Change, Snapshot
from goalrunner.core.outcome import GoalOutcome
from goalrunner.exports.change import make_branch, refuse_branch
from goalrunner.records.run_folder import RunFolder, read_json, write_json
from goalrunner.records.writer_lock import has_writer
from goalrunner.reports.layout import Fact
from goalrunner.reports.restore_lines import plan_lines
from goalrunner.reports.short_forms import SHORT_ID
from goalrunner.snapshots.git import ask_git
from goalrunner.snapshots.ignore_rules import Start
from goalrunner.snapshots.objects import Entry
from goalrunner.snapshots.paths import printable_path, raw
from goalrunner.snapshots.repositories import Repository, enclosing
from goalrunner.snapshots.store_folder import put_aside, share_store

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


_GIT_SECONDS = 60.0
_BLOCK = 4096


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
    folders: tuple[str, ...] = ()
    """New folders, the innermost first."""


def applied_lines(
    run_id: str, workspace: str, applied: Applied, labels: Sequence[str]
) -> Iterator[Fact]:
    """Yield the changes that were made, and the command that undoes them.

    `labels` are those of a run in a copy: what it has installed stays there.
    """
    yield from plan_lines(
        "applied", workspace, f"has the change of {run_id}", applied.changes
    )
    for label in labels:
        kind, _, changes = label.partition(": ")
        if kind == Label.DEPENDENCIES_CHANGED:
            yield Fact("install", f"what changed in the copy alone: {changes}")
    before = applied.before.id[:SHORT_ID]
    yield Fact("before", f"kept as snapshot {before}; to undo the apply:")
    yield Fact("", f"goal restore {run_id} --snapshot {before}", whole=True)


def refuse_unfinished(
    run: RunFolder, outcome: GoalOutcome, *, incomplete: bool
) -> None:
    """Raise UsageError for a run that goes on, or is not complete.

    `incomplete` allows one that is not complete.
    """
    name = run.run_id
    if has_writer(run.events):
        raise UsageError(
            f"run {name} still goes on, so its change is not final",
            f"goal watch {name} follows it; goal cancel {name} ends it",
        )
    if not (outcome.passed or incomplete):
        raise UsageError(
            f"run {name} is not complete ({outcome.status.value}), "
            "so its change is not verified",
            f"goal resume {name} goes on; "
            f"goal apply {name} --incomplete applies it all the same",
        )


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
        if not self.workspace.is_dir():
            raise UsageError(
                f"the workspace {self.workspace} is gone",
                f"{self._patch_command()} writes the change as a patch",
            )
        outputs = frozen_table(folder).get("workspace", {}).get("outputs", ())
        self._kept_store = KeptStore(
            self.workspace, home, environ, outputs, folder.start
        )
        self._store = self._kept_store.store
        self._journal = home / "applies" / f"{self._store.folder.name}.json"
        # `goal prune` removes no snapshot while it is held.
        self._sharing = share_store(self._store.folder)

    def close(self) -> None:
        """Release the workspace, and its snapshots for `goal prune`."""
        self._store.close()
        os.close(self._sharing)

    def refuse_unready(self) -> None:
        """Raise UsageError if the repository of the workspace is another one than that
        of the run, has an unfinished command, or unresolved conflicts.
        """
        repository = enclosing(self.workspace)
        if repository is None:
            return
        for name, command in _IN_PROGRESS.items():
            if (repository.git_dir / name).exists():
                raise UsageError(
                    f"{command} is not finished in {repository.root}",
                    "finish or abort it first; git status says how",
                )
        unmerged = self._ask(repository, "diff", "--name-only", "--diff-filter=U", "-z")
        if unmerged:
            paths = sorted(map(printable_path, unmerged.split(b"\0")[:-1]))
            raise UsageError(
                f"{repository.root} has unresolved conflicts: {some(paths)}",
                "resolve them and git add the files; git status shows them",
            )
        self._refuse_another(repository)

    def _refuse_another(self, repository: Repository) -> None:
        """Raise UsageError unless the repository has the commit of the run's start.

        Another project at the same path would get files that have nothing to do with
        it.
        """
        commit = Start(self._run.start).commit
        if commit and not self._ask(repository, "rev-list", "-1", commit, "--"):
            raise UsageError(
                f"{repository.root} is another repository than when the run began: "
                f"it has no commit {commit[:SHORT_ID]}",
                f"{self._patch_command()} writes the change as a patch",
            )

    def _ask(self, repository: Repository, *arguments: str) -> bytes:
        """Return the output of git; nothing if it fails."""
        _, output, _ = ask_git(
            repository.root,
            *arguments,
            environ=self._environ,
            timeout=_GIT_SECONDS,
        )
        return output

    def _patch_command(self) -> str:
        return f"goal export {self._run.run_id} --patch"

    async def undo_interrupted(self) -> str:
        """Undo an apply that was killed while it wrote; return a line about it, or
        nothing. Raise WorkspaceError.
        """
        # It claims the workspace: else the journal could be that of an apply which is
        # just ending well.
        between = await self._store.snapshot()
        journal: _Journal | None = read_json(self._journal, _Journal)
        if journal is None:
            return ""
        lost = await self._edited(journal, between)
        await self._store.restore(journal.before, journal.paths)
        self._remove_empty(journal.folders)
        # Last: after a kill before this, the next apply undoes it again.
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
        current, before, target = [
            await self._store.entries(snapshot)
            for snapshot in (between, journal.before, journal.target)
        ]
        return [
            path
            for path in journal.paths
            if path in current
            and current[path] not in (before.get(path), target.get(path))
        ]

    async def merge(self) -> MergedTree:
        """Merge the change into what the workspace holds now.

        Raise MergeConflict, also if a new file would replace one that no snapshot has,
        and WorkspaceError.
        """
        now = await self._store.snapshot()
        await self._kept_store.require(self._start, self._end)
        tree = await merge_tree(self._store, self._start, self._end, now)
        await refuse_unseen(self._store, tree)
        return tree

    async def merge_onto(self, revision: str) -> MergedTree:
        """Merge the change onto a commit; the files of the workspace do not matter.

        Raise as `merge` does.
        """
        await self._kept_store.require(self._start, self._end)
        repository = repository_of(self.workspace)
        files = CommitFiles(self._store, repository, revision, self._environ)
        onto = await files.snapshot_like(self._start)
        return await merge_tree(self._store, self._start, self._end, onto, BRANCH)

    async def moved(self, tree: MergedTree) -> tuple[str, ...]:
        """Return the paths in which a merged tree rests on something else than the run
        began with; without any, the run has verified this very tree.
        """
        changes = await self._store.changes(self._start, tree.onto)
        return tuple(item.path for item in changes if item.kind != "repository")

    @property
    def only_in_copy(self) -> str:
        """The label of a result that may rest on ignored files of the copy; empty if it
        does not.

        An apply leaves these out, so that the run has not verified what it writes.
        """
        if not self._loaded.started.isolated:
            return ""
        labels = self._loaded.outcome(self._run).labels
        rests = (label for label in labels if label.startswith(Label.RESTS_ON_FILES))
        return next(rests, "")

    async def base(self, branch: str) -> str:
        """Return the commit on which a new branch of this name begins: that of the
        run's start.

        Raise UsageError without a repository or a commit, and for a name that cannot be
        used.
        """
        repository = repository_of(self.workspace)
        commit = Start(self._run.start).commit
        if not commit:
            raise UsageError(
                f"{repository.root} had no commit when the run began",
                f"leave --branch out; or {self._patch_command()} writes a patch",
            )
        self._refuse_another(repository)
        await refuse_branch(self._kept_store.git, repository, branch)
        return commit

    async def commit(self, tree: MergedTree, base: str, message: str) -> str:
        """Commit a tree that was merged onto `base`; return the commit.

        No branch has it yet.
        """
        return await commit_tree(self._store, tree, base, message, self._environ)

    async def make_branch(self, branch: str, commit: str) -> None:
        """Make a branch that begins at a commit. Raise WorkspaceError if it exists."""
        repository = repository_of(self.workspace)
        await make_branch(self._kept_store.git, repository, branch, commit)

    def check(self, tree: MergedTree, commit: str = "") -> None:
        """Run the validators of the run on a merged tree, or on the commit of it. Raise
        UsageError if one fails.
        """
        run_and_places = ([self._run], self.workspace, self._home, self._environ)
        if commit:
            problem = problem_of_commit(commit, *run_and_places)
        else:
            problem = problem_of_tree(tree.target, *run_and_places)
        if not problem:
            return
        hint = f"goal apply {self._run.run_id} --no-check applies it all the same"
        if self.only_in_copy:
            hint = (
                f"ignored files are not applied, and the result {self.only_in_copy}; "
                f"make them in the workspace first, or: {hint}"
            )
        raise UsageError(
            f"the merged tree is not verified, and nothing was written: {problem}", hint
        )

    async def write(self, tree: MergedTree) -> Applied:
        """Write a merged tree into the workspace.

        Raise UsageError if the workspace has changed since the merge, and
        WorkspaceError if a file cannot be written; then all others were put back.
        """
        if not tree.entries:
            return Applied((), tree.onto)
        await self._refuse_changed(tree)
        await self._refuse_without_space(tree)
        # A later `goal prune` keeps it then, although no log names it.
        with contextlib.suppress(OSError):
            put_aside(self._store.folder, tree.onto.id)
        folders = self._new_folders(tree)
        journal = _Journal(
            run=self._run.run_id,
            before=tree.onto,
            target=tree.target,
            paths=tree.paths,
            folders=folders,
        )
        # After a kill from here on, the next apply finds the journal and puts the files
        # back.
        write_json(self._journal, journal.model_dump())
        try:
            changes = await self._store.restore(tree.target, tree.paths)
        except BaseException as error:
            # Also after Ctrl-C: half a change must not stay in the workspace.
            await self._put_back(tree, folders, error)
            if isinstance(error, WorkspaceError):
                words = f"nothing was applied: {error.message}"
                raise WorkspaceError(words, error.hint) from error
            raise
        self._journal.unlink()
        return Applied(changes, tree.onto)

    async def _refuse_changed(self, tree: MergedTree) -> None:
        """Raise UsageError if a file was changed since the merge, such as while the
        validators ran. It would be overwritten, or was not checked.
        """
        now = await self._store.snapshot()
        changes = await self._store.changes(tree.onto, now)
        paths = [item.path for item in changes if item.kind != "repository"]
        if paths:
            raise UsageError(
                f"{some(paths)} changed in {self.workspace} meanwhile, "
                "and nothing was written",
                f"goal apply {self._run.run_id} merges again",
            )

    async def _refuse_without_space(self, tree: MergedTree) -> None:
        """Raise WorkspaceError if the disk of the workspace has no room for a tree.

        Git would write as many files as fit, and not say why others are missing.
        """
        before = await self._store.entries(tree.onto)
        replaced = [before[path] for path in tree.paths if path in before]
        new = [entry for entry in tree.entries.values() if entry is not None]
        needed = await self._space_of(new) - await self._space_of(replaced)
        free = disk_usage(self.workspace).free
        if needed > free:
            raise WorkspaceError(
                f"nothing was applied: the change needs {needed / 1e6:.1f} MB, and "
                f"the disk of {self.workspace} has {free / 1e6:.1f} MB of free space",
                f"free some space; then: goal apply {self._run.run_id}",
            )

    async def _space_of(self, entries: Sequence[Entry]) -> int:
        """Return the bytes that files have on a disk with blocks of the usual size."""
        names = "".join(f"{entry.blob}\n" for entry in entries if entry.stored)
        command = ("cat-file", "--batch-check=%(objectsize)")
        sizes = await self._kept_store.git.ask(*command, stdin=names.encode())
        # Rounded up: a file of one byte takes a whole block.
        return sum(-(-int(size) // _BLOCK) * _BLOCK for size in sizes.split())

    def _new_folders(self, tree: MergedTree) -> tuple[str, ...]:
        """Return the folders that an apply makes, the innermost first."""
        folders = set()
        for path, entry in tree.entries.items():
            # Without an entry, the path is removed.
            if entry is None:
                continue
            for parent in map(str, PurePosixPath(path).parents):
                if not os.path.lexists(self._place(parent)):
                    folders.add(parent)
        return tuple(sorted(folders, key=len, reverse=True))

    def _remove_empty(self, folders: Sequence[str]) -> None:
        """Remove folders that an undone apply has made, unless a person uses them."""
        for folder in folders:
            with contextlib.suppress(OSError):
                os.rmdir(self._place(folder))

    def _place(self, path: str) -> bytes:
        return os.path.join(os.fsencode(self.workspace), raw(path))

    async def _put_back(
        self, tree: MergedTree, folders: Sequence[str], error: BaseException
    ) -> None:
        """Restore the files of an apply that failed while it wrote.

        Raise WorkspaceError if that fails as well; the journal stays then.
        """
        try:
            before = await self._store.entries(tree.onto)
            # Even a snapshot needs space, and on a full disk only these can give some.
            self._store.remove_files(tree.entries.keys() - before.keys())
            await self._store.restore(tree.onto, tree.paths)
            self._remove_empty(folders)
        except (GoalError, OSError) as second:
            raise WorkspaceError(
                f"the change was written in part only ({error}), "
                f"and could not be undone ({second})",
                "free some space, or correct what the error names; "
                f"then goal apply {self._run.run_id} undoes it first",
            ) from error
        self._journal.unlink()
