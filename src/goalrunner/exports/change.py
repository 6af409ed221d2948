"""The change of a run for use in git: as a patch, or as a commit on a new branch."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from goalrunner.app.run_snapshots import KeptStore
from goalrunner.app.stored_goal import frozen_table
from goalrunner.core.errors import UsageError, WorkspaceError, one_line, some
from goalrunner.core.observation import Change
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.run_state import RunState
from goalrunner.records.run_folder import RunFolder
from goalrunner.reports.short_forms import SHORT_ID
from goalrunner.snapshots.git import Git, git_environment, git_program
from goalrunner.snapshots.ignore_rules import Start
from goalrunner.snapshots.paths import printable_path, raw
from goalrunner.snapshots.repositories import Repository, enclosing

# The git command of a patch that has all content; a renamed file is deleted and added.
_PATCH = (
    "diff-tree",
    "-r",
    "-p",
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
_APPLY = ("apply", "--cached", "--binary", "--whitespace=nowarn")
_SUBMODULE = "160000"
_SUBJECT = 72
"""Characters of the first line of a commit message, as git's documentation advises."""


@dataclass(frozen=True)
class NewBranch:
    """A branch that was made."""

    commit: str
    base: str
    """The commit it is based on."""
    unchecked: tuple[str, ...]
    """Its files that the run did not check."""


@dataclass(frozen=True)
class ChangedTree:
    """The files of a commit with the change of a run, as a tree of git."""

    repository: Repository
    tree: str
    base: str
    """The commit."""
    differing: tuple[str, ...]
    """Its files that the run saw with another content, and did not change."""
    unseen: tuple[str, ...]
    """Its files that did not exist in the run."""
    hint: str
    """What to type if the commit does not fit."""

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Its files that the run did not check."""
        return tuple(sorted((*self.differing, *self.unseen)))


@dataclass(frozen=True)
class _Base:
    """Where a branch begins."""

    repository: Repository
    commit: str
    folder: str
    """The workspace, relative to the repository; "." is the repository itself."""
    name: str
    """The commit as messages name it."""
    hint: str
    """What to type if the change does not fit to it."""


@dataclass(frozen=True)
class _CommittedFiles:
    """The files of a commit in the folder of the workspace."""

    blobs: Mapping[str, str]
    """The blob by path."""
    submodules: tuple[str, ...]
    """Their folders, each with a slash at its end."""


class RunChange:
    """The change of a run, from its start to its last snapshot.

    That snapshot is the verified one in a complete run. Caches and the goal's `outputs`
    are left out. Raise UsageError if the run took no snapshots, and WorkspaceError if
    they are gone.
    """

    def __init__(
        self, folder: RunFolder, state: RunState, home: Path, environ: Mapping[str, str]
    ) -> None:
        self._run = folder.run_id
        if state.base is None or state.snapshot is None:
            raise UsageError(
                f"run {self._run} took no snapshots, so there is no change to export",
                'the agent has not run, or deliverable = "response"; '
                f"see goal show {self._run}",
            )
        self._patch_hint = (
            f"goal export {self._run} --patch writes the change as a patch"
        )
        self._start, self._end = state.base, state.snapshot
        self._workspace = Path(state.workspace)
        start_folder = folder.path / "start"
        outputs = frozen_table(folder).get("workspace", {}).get("outputs", ())
        kept_store = KeptStore(self._workspace, home, environ, outputs, start_folder)
        self._kept_store = kept_store
        self._commit = Start(start_folder).commit
        self._git = kept_store.git

    async def files(self) -> tuple[Change, ...]:
        """Return the files that were changed, sorted by path.

        Raise WorkspaceError if snapshots are gone.
        """
        await self._kept_store.require(self._start, self._end)
        changes = await self._kept_store.store.changes(self._start, self._end)
        return tuple(item for item in changes if item.kind != "repository")

    async def patch(self) -> bytes:
        """Return a patch for `git apply` in the workspace's folder.

        Raise UsageError if nothing was changed; WorkspaceError if snapshots are gone,
        or if they do not contain the content of a changed file.
        """
        store = self._kept_store.store
        paths = sorted(item.path for item in await self.files())
        if not paths:
            raise UsageError(
                f"run {self._run} changed no files, so there is nothing to export"
            )
        before = await store.entries(self._start)
        after = await store.entries(self._end)
        for path in paths:
            for entries in (before, after):
                if path in entries and not entries[path].stored:
                    raise _missing_content(path)
        # It raises an error if the store was changed since.
        for path in paths:
            for snapshot in (self._start, self._end):
                await store.read(snapshot, path)
        rows = []
        # Deleted ones first: a folder may replace a file.
        for path in sorted(paths, key=after.__contains__):
            if path in after:
                mode, blob = after[path].mode, after[path].blob
            else:
                mode, blob = "0", "0" * len(before[path].blob)
            rows.append(f"{mode} {blob}\t".encode() + raw(path) + b"\0")
        return await self._diff_of_rows(rows)

    async def _diff_of_rows(self, rows: Sequence[bytes]) -> bytes:
        """Return the patch from the start to the start with these entries."""
        # `diff-tree -- PATH` would include a whole folder that replaced a file, so a
        # tree with these paths is compared.
        start = f"{self._start.tree}:content"
        with tempfile.TemporaryDirectory() as scratch:
            ask = partial(self._git.ask, index=Path(scratch) / "index")
            await ask("read-tree", start)
            await ask("update-index", "-z", "--index-info", stdin=b"".join(rows))
            tree = await ask("write-tree")
            return await ask(*_PATCH, start, tree.strip())

    async def branch(
        self, name: str, base: str | None, message: str, environ: Mapping[str, str]
    ) -> NewBranch:
        """Commit the change on a new branch.

        Work tree, index and HEAD stay as they are. The branch starts at `base`, by
        default at the commit that was checked out when the run began. Raise UsageError
        without a repository, for a name that is taken or not valid, for an unknown
        base, if the change does not apply to it, or if git's configuration names no
        author.
        """
        await refuse_branch(self._git, self._repository(), name)
        changed = await self.tree(base)
        # They are of a commit that the agent made, for example.
        if base is not None and changed.unseen:
            raise UsageError(
                f"{base} has files that the run did not check: {some(changed.unseen)}",
                changed.hint,
            )
        repository = changed.repository
        parents = [changed.tree, "-p", changed.base]
        commit = new_commit(repository.root, parents, message, environ)
        await make_branch(self._git, repository, name, commit)
        return NewBranch(commit, changed.base, changed.unchecked)

    async def tree(self, base: str | None = None) -> ChangedTree:
        """Return the tree of a commit with the change.

        The commit is `base`, by default the one that was checked out when the run
        began. Raise UsageError without a repository, for an unknown base, or if the
        change does not apply to it.
        """
        repository = self._repository()
        patch = await self.patch()
        begin = await self._base(repository, base)
        tree = await self._tree_with(patch, begin)
        differing, unseen = await self._unchecked(begin)
        return ChangedTree(
            repository,
            tree,
            begin.commit,
            tuple(differing),
            tuple(unseen),
            begin.hint,
        )

    def _repository(self) -> Repository:
        repository = enclosing(self._workspace)
        if repository is None:
            raise UsageError(
                f"{self._workspace} is in no git repository, so the change has no "
                "commit to begin from",
                self._patch_hint,
            )
        return repository

    async def _base(self, repository: Repository, base: str | None) -> _Base:
        """Return where a branch begins; `base` is the name that the user gave."""
        commit = await self._base_commit(repository, base)
        folder = os.path.relpath(self._kept_store.store.workspace, repository.root)
        name, hint = commit[:SHORT_ID], self._patch_hint
        if base is not None:
            name = base
            hint = f"without --base, the branch begins where the run began; {hint}"
        return _Base(repository, commit, folder, name, hint)

    async def _base_commit(self, repository: Repository, base: str | None) -> str:
        revision = self._commit if base is None else base
        reason = "had no commit when the run began"
        if revision:
            arguments = ("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
            answer = await self._git.run(*arguments, repository=repository.git_dir)
            if answer.code == 0:
                return answer.output.decode().strip()
            reason = f"has no commit {revision}"
        raise UsageError(
            f"{repository.root} {reason}",
            f"--base COMMIT names another one; or {self._patch_hint}",
        )

    async def _tree_with(self, patch: bytes, base: _Base) -> str:
        """Return the tree of a commit with the change.

        Raise UsageError if the change does not apply.
        """
        root = base.repository.root
        with tempfile.TemporaryDirectory() as scratch:
            ask = partial(
                self._git.run,
                repository=base.repository.git_dir,
                index=Path(scratch) / "index",
            )
            await ask("read-tree", base.commit)
            options = [] if base.folder == "." else [f"--directory={base.folder}"]
            answer = await ask(*_APPLY, *options, "-", stdin=patch, tree=root)
            if answer.code != 0:
                errors = answer.errors.decode("utf-8", "replace").strip()
                reason = errors.partition("\n")[0].removeprefix("error: ")
                raise UsageError(
                    f"the change does not apply to {base.name}: "
                    f"{reason or answer.code}",
                    base.hint,
                )
            tree = await ask("write-tree")
            return tree.output.decode().strip()

    async def _unchecked(self, base: _Base) -> tuple[list[str], list[str]]:
        """Compare the files that the run did not change with those of a commit.

        Return the files that differed at the start of the run, and the files that only
        the commit has. Submodules are left out, and a goal file and caches that the
        commit does not have.
        """
        committed = await self._committed_files(base)
        changed_paths = {item.path for item in await self.files()}
        store = self._kept_store.store
        entries = await store.entries(self._start)
        differing = []
        for path, entry in entries.items():
            if path in changed_paths or path.startswith(committed.submodules):
                continue
            # The content of large files is not known.
            if not entry.stored or committed.blobs.get(path) == entry.blob:
                continue
            is_goal_file = PurePosixPath(path).name == "goal.toml"
            if path in committed.blobs or not (
                is_goal_file or store.is_cache_or_output(path)
            ):
                differing.append(path)
        unseen = committed.blobs.keys() - entries.keys() - changed_paths
        return sorted(differing), sorted(unseen)

    async def _committed_files(self, base: _Base) -> _CommittedFiles:
        folder = "" if base.folder == "." else f"{base.folder}/"
        paths = [folder] if folder else []
        listing = await self._git.ask(
            "ls-tree",
            "-r",
            "-z",
            "--full-tree",
            base.commit,
            *paths,
            repository=base.repository.git_dir,
        )
        blobs: dict[str, str] = {}
        submodules: list[str] = []
        for row in listing.split(b"\0")[:-1]:
            description, name = row.split(b"\t", 1)
            mode, _, blob = description.decode().split()
            path = printable_path(name.removeprefix(os.fsencode(folder)))
            if mode == _SUBMODULE:
                submodules.append(f"{path}/")
            else:
                blobs[path] = blob
        return _CommittedFiles(blobs, tuple(submodules))


def _missing_content(path: str) -> WorkspaceError:
    return WorkspaceError(
        f"the snapshots do not contain the content of {path}",
        "files over 50 MB and unreadable ones are not kept; "
        "take them from the workspace",
    )


async def refuse_branch(git: Git, repository: Repository, name: str) -> None:
    """Raise UsageError for a name that is not valid, or of an existing branch."""
    ask = partial(git.run, repository=repository.git_dir)
    valid = await ask("check-ref-format", "--branch", name)
    if valid.code != 0:
        raise UsageError(
            f"{name!r} is not a valid name of a branch",
            "use letters, digits, - and /",
        )
    existing = await ask("show-ref", "--verify", "--quiet", f"refs/heads/{name}")
    if existing.code == 0:
        raise UsageError(
            f"the branch {name} exists already",
            f"choose another name; git log {name} shows what it has",
        )


async def make_branch(git: Git, repository: Repository, name: str, commit: str) -> None:
    """Make a branch that begins at a commit. Raise WorkspaceError if it exists."""
    # The zeros make git refuse if the branch exists by now.
    await git.ask(
        "update-ref",
        f"refs/heads/{name}",
        commit,
        "0" * len(commit),
        repository=repository.git_dir,
    )


def person_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return a clean environment in which git reads the user's configuration."""
    return {
        name: value
        for name, value in git_environment(environ).items()
        if not name.startswith("GIT_CONFIG")
    }


def new_commit(
    root: Path, arguments: list[str], message: str, environ: Mapping[str, str]
) -> str:
    """Make a commit and return its id. Raise UsageError.

    Its author is the one that the user's own configuration names.
    """
    program = git_program(root, environ)
    command = [program, "-C", str(root), "commit-tree", "--no-gpg-sign", *arguments]
    finished = subprocess.run(
        command,
        env=person_environment(environ),
        input=message.encode(),
        capture_output=True,
        check=False,
    )
    if finished.returncode != 0:
        errors = finished.stderr.decode("utf-8", "replace").strip()
        raise UsageError(
            f"git cannot make the commit: {errors}",
            'name the author: git config user.name "..."',
        )
    return finished.stdout.decode().strip()


def commit_message(outcome: GoalOutcome) -> str:
    """Return the message of the commit.

    It is the objective, and trailers with the run, its status and its labels.
    """
    objective = outcome.objective.strip()
    subject = one_line(objective, _SUBJECT)
    body = objective if subject != objective else ""
    trailers = [f"Goal-Run: {outcome.run_id}", f"Goal-Status: {outcome.status}"]
    trailers += [f"Goal-Label: {label}" for label in outcome.labels]
    paragraphs = filter(None, (subject, body, "\n".join(trailers)))
    return "\n\n".join(paragraphs) + "\n"
