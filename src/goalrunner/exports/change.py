"""The change of a run for use in git: a patch, or a commit on a new branch of the user's repository."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from goalrunner.app.previous_run import frozen_table
from goalrunner.app.run_snapshots import KeptStore
from goalrunner.core.errors import UsageError, WorkspaceError, some
from goalrunner.core.observation import Change
from goalrunner.core.run_state import RunState
from goalrunner.records.run_folder import RunFolder
from goalrunner.snapshots.git import git_environment, git_program
from goalrunner.snapshots.ignore_rules import Start
from goalrunner.snapshots.paths import printable_path, raw
from goalrunner.snapshots.repositories import Repository, enclosing

_PATCH = (
    *(
        "diff-tree",
        "-r",
        "-p",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
    ),
    *("--no-color", "--src-prefix=a/", "--dst-prefix=b/"),
)
"""The git command of a patch that has all content; a renamed file is deleted and added."""
_APPLY = ("apply", "--cached", "--binary", "--whitespace=nowarn")


@dataclass(frozen=True)
class NewBranch:
    """A branch that was made: its commit, the commit it is based on, and its files that the run did not check."""

    commit: str
    base: str
    unchecked: tuple[str, ...]


class RunChange:
    """The change of a run, from its start to its last snapshot, which is the verified one in a complete run.

    Caches and the goal's `outputs` are left out. Raise UsageError if the run took no snapshots, and WorkspaceError if they are
    gone.
    """

    def __init__(
        self, folder: RunFolder, state: RunState, home: Path, environ: Mapping[str, str]
    ) -> None:
        if state.base is None or state.snapshot is None:
            hint = f'the agent has not run, or deliverable = "response"; see goal show {folder.run_id}'
            raise UsageError(
                f"run {folder.run_id} took no snapshots, so there is no change to export",
                hint,
            )
        self._run = folder.run_id
        self._instead = f"goal export {self._run} --patch writes the change as a patch"
        self._start, self._end = state.base, state.snapshot
        self._workspace = Path(state.workspace)
        outputs = frozen_table(folder).get("workspace", {}).get("outputs", ())
        self._kept = KeptStore(
            self._workspace, home, environ, outputs, folder.path / "start"
        )
        self._commit = Start(folder.path / "start").commit
        self._git = self._kept.git

    async def files(self) -> tuple[Change, ...]:
        """Return the files that were changed, sorted by path. Raise WorkspaceError if snapshots are gone."""
        await self._kept.require(self._start, self._end)
        changes = await self._kept.store.changes(self._start, self._end)
        return tuple(item for item in changes if item.kind != "repository")

    async def patch(self) -> bytes:
        """Return a patch for `git apply` in the workspace's folder. Raise UsageError if nothing was changed.

        Raise WorkspaceError if snapshots are gone, or if they do not contain the content of a changed file.
        """
        store, files = self._kept.store, await self.files()
        before, after = await store.entries(self._start), await store.entries(self._end)
        paths = sorted(item.path for item in files)
        if not paths:
            raise UsageError(
                f"run {self._run} changed no files, so there is nothing to export"
            )
        if lost := [
            path
            for path in paths
            for side in (before, after)
            if path in side and not side[path].stored
        ]:
            hint = "files over 50 MB and unreadable ones are not kept; take them from the workspace"
            raise WorkspaceError(
                f"the snapshots do not contain the content of {lost[0]}", hint
            )
        for path in paths:  # raises if the store was changed since
            for snapshot in (self._start, self._end):
                await store.read(snapshot, path)
        # `diff-tree -- PATH` would include a whole folder that replaced a file, so a tree with these paths is compared.
        rows = []
        for path in sorted(
            paths, key=after.__contains__
        ):  # deleted ones first: a folder may replace a file
            mode, blob = (
                (after[path].mode, after[path].blob)
                if path in after
                else ("0", "0" * len(before[path].blob))
            )
            rows.append(f"{mode} {blob}\t".encode() + raw(path) + b"\0")
        start = f"{self._start.tree}:content"
        with tempfile.TemporaryDirectory() as scratch:
            ask = partial(self._git.ask, index=Path(scratch) / "index")
            await ask("read-tree", start)
            await ask("update-index", "-z", "--index-info", stdin=b"".join(rows))
            return await ask(*_PATCH, start, (await ask("write-tree")).strip())

    async def branch(
        self, name: str, base: str | None, message: str, environ: Mapping[str, str]
    ) -> NewBranch:
        """Commit the change on a new branch. Work tree, index and HEAD stay as they are.

        It starts at `base`, by default at the commit that was checked out when the run began.

        Raise UsageError without a repository, for a name that is taken or not valid, for an unknown base, if the change does not
        apply to it, or if git's configuration names no author.
        """
        repository = enclosing(self._workspace)
        if repository is None:
            raise UsageError(
                f"{self._workspace} is in no git repository, so no branch can be made",
                self._instead,
            )
        await self._check_name(repository, name)
        patch = await self.patch()
        commit = await self._base_commit(repository, base)
        hint = self._instead
        if base is not None:
            hint = f"without --base, the branch begins where the run began; {hint}"
        inside = os.path.relpath(self._kept.store.workspace, repository.root)
        tree = await self._tree_with(
            repository, commit, patch, inside, base or commit[:12], hint
        )
        differing, unseen = await self._unchecked(repository, commit, inside)
        if base is not None and unseen:  # of a commit that the agent made, for example
            raise UsageError(
                f"{base} has files that the run did not check: {some(unseen)}", hint
            )
        new = _committed(repository.root, [tree, "-p", commit], message, environ)
        zeros = "0" * len(new)  # git refuses if the branch exists by now
        await self._git.ask(
            "update-ref",
            f"refs/heads/{name}",
            new,
            zeros,
            repository=repository.git_dir,
        )
        return NewBranch(new, commit, tuple(sorted((*differing, *unseen))))

    async def _check_name(self, repository: Repository, name: str) -> None:
        ask = partial(self._git.run, repository=repository.git_dir)
        if (await ask("check-ref-format", "--branch", name)).code != 0:
            raise UsageError(
                f"{name!r} is not a valid name of a branch",
                "use letters, digits, - and /",
            )
        if (
            await ask("show-ref", "--verify", "--quiet", f"refs/heads/{name}")
        ).code == 0:
            raise UsageError(
                f"the branch {name} exists already",
                f"choose another name, or: git branch -D {name}",
            )

    async def _base_commit(self, repository: Repository, base: str | None) -> str:
        wanted = self._commit if base is None else base
        if not wanted:
            why = "had no commit when the run began"
        else:
            arguments = ("rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}")
            answer = await self._git.run(*arguments, repository=repository.git_dir)
            if answer.code == 0:
                return answer.output.decode().strip()
            why = f"has no commit {wanted}"
        raise UsageError(
            f"{repository.root} {why}",
            f"--base COMMIT names another one; or {self._instead}",
        )

    async def _tree_with(
        self,
        repository: Repository,
        commit: str,
        patch: bytes,
        inside: str,
        name: str,
        hint: str,
    ) -> str:
        """Return the tree of a commit with the change. Raise UsageError, which calls it `name`, if it does not apply."""
        with tempfile.TemporaryDirectory() as scratch:
            ask = partial(
                self._git.run,
                repository=repository.git_dir,
                index=Path(scratch) / "index",
            )
            await ask("read-tree", commit)
            folder = [] if inside == "." else [f"--directory={inside}"]
            answer = await ask(*_APPLY, *folder, "-", stdin=patch, tree=repository.root)
            if answer.code != 0:
                error = (
                    answer.errors.decode("utf-8", "replace")
                    .strip()
                    .partition("\n")[0]
                    .removeprefix("error: ")
                )
                raise UsageError(
                    f"the change does not apply to {name}: {error or answer.code}", hint
                )
            return (await ask("write-tree")).output.decode().strip()

    async def _unchecked(
        self, found: Repository, commit: str, inside: str
    ) -> tuple[list[str], list[str]]:
        """Compare the files that the run did not change with those of a commit, where the branch begins.

        Return the files that differed at the start of the run, and the files that only the commit has. Submodules are
        left out, and a goal file and caches that the commit does not have.
        """
        within = [] if inside == "." else [f"{inside}/"]
        listed = await self._git.ask(
            "ls-tree",
            "-r",
            "-z",
            "--full-tree",
            commit,
            *within,
            repository=found.git_dir,
        )
        committed: dict[str, str] = {}  # the blob by path
        submodules: tuple[str, ...] = ()
        for row in listed.split(b"\0")[:-1]:
            meta, name = row.split(b"\t", 1)
            mode, _, blob = meta.decode().split()
            path = printable_path(name.removeprefix(os.fsencode("".join(within))))
            if mode == "160000":
                submodules += (f"{path}/",)
            else:
                committed[path] = blob
        changed = {item.path for item in await self.files()}
        store = self._kept.store
        entries = await store.entries(self._start)
        differing = []
        for path, entry in entries.items():
            is_new_goal_file = (
                PurePosixPath(path).name == "goal.toml" and path not in committed
            )
            is_new_cache = path not in committed and store.is_passing(path)
            is_compared = (
                entry.stored
                and not is_new_goal_file
                and not is_new_cache
                and path not in changed
                and not path.startswith(submodules)
            )
            if is_compared and committed.get(path) != entry.blob:
                differing.append(path)
        return sorted(differing), sorted(committed.keys() - entries.keys() - changed)


def _committed(
    root: Path, arguments: list[str], message: str, environ: Mapping[str, str]
) -> str:
    """Make a commit by the author that the user's own configuration names, and return its id. Raise UsageError."""
    argv = [
        git_program(root, environ),
        "-C",
        str(root),
        "commit-tree",
        "--no-gpg-sign",
        *arguments,
    ]
    own = {
        name: value
        for name, value in git_environment(environ).items()
        if not name.startswith("GIT_CONFIG")
    }
    done = subprocess.run(
        argv, env=own, input=message.encode(), capture_output=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise UsageError(
            f"git cannot make the commit: {said}",
            'name the author: git config user.name "..."',
        )
    return done.stdout.decode().strip()
