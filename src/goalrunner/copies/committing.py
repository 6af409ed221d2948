"""Commits of merged trees: on the branch that is checked out, or beside it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from goalrunner.copies.conversions import CommitFiles
from goalrunner.copies.merging import MergedTree
from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.exports.change import new_commit
from goalrunner.snapshots.paths import printable_path, raw
from goalrunner.snapshots.repositories import Repository, enclosing
from goalrunner.snapshots.store import SnapshotStore

_SUBMODULE = b"160000"


def repository_of(workspace: Path) -> Repository:
    """Return the repository of a workspace. Raise UsageError if there is none."""
    repository = enclosing(workspace)
    if repository is None:
        raise UsageError(
            f"{workspace} is in no git repository, so nothing can be committed",
            "leave --commit or --branch out",
        )
    return repository


async def commit_tree(
    store: SnapshotStore,
    tree: MergedTree,
    parent: str,
    message: str,
    environ: Mapping[str, str],
) -> str:
    """Commit a merged tree on the commit that it was merged onto; return the commit.

    No branch, index or work tree is changed. The author is the one that git's
    configuration names. Raise UsageError, and WorkspaceError if git fails.
    """
    repository = repository_of(store.workspace)
    files = CommitFiles(store, repository, parent, environ)
    listing = ("ls-tree", "-r", "-z", "--full-tree", parent)
    listed = await store.git.ask(*listing, repository=repository.git_dir)
    _refuse_submodules(listed, files.folder, tree.paths)
    content = await files.tree_with(tree.entries)
    return new_commit(repository.root, [content, "-p", parent], message, environ)


def _refuse_submodules(listed: bytes, folder: str, paths: Sequence[str]) -> None:
    """Raise UsageError for a path in a submodule.

    Git would replace the whole submodule by that file, without an error.
    """
    submodules = []
    for line in listed.split(b"\0"):
        mode_and_id, _, name = line.partition(b"\t")
        if mode_and_id.startswith(_SUBMODULE):
            submodules.append(f"{printable_path(name)}/")
    for path in paths:
        if (folder + path).startswith(tuple(submodules)):
            raise UsageError(
                f"{path} is in a submodule, which has commits of its own",
                "goal apply without --branch changes it in the workspace",
            )


def refuse_commit(workspace: Path) -> None:
    """Raise UsageError if nothing can be committed there: no repository, or no branch
    is checked out.
    """
    repository = repository_of(workspace)
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
    listed = b"".join(raw(path) + b"\0" for path in _replacing(workspace, paths))
    pathspec = ("--pathspec-from-file=-", "--pathspec-file-nul")
    code, _, errors = _git(workspace, "add", "--all", *pathspec, stdin=listed)
    if code == 0:
        # With --only, what the person has staged of other files is not committed.
        only = ("commit", "--quiet", "--only", f"--message={message}", *pathspec)
        code, _, errors = _git(workspace, *only, stdin=listed)
    if code != 0:
        words = errors.decode(errors="replace").strip()
        raise WorkspaceError(
            f"the change is applied, but git could not commit it: {words}",
            "commit it yourself: git status shows it",
        )


def _replacing(workspace: Path, paths: Sequence[str]) -> Iterator[str]:
    """Yield the paths that git accepts; it removes the others with what replaces them.

    It refuses the name of a link that a folder has replaced, and those of the files of
    a folder that a link has replaced.
    """
    for path in paths:
        relative = PurePosixPath(os.fsdecode(raw(path)))
        # The last parent is the workspace, which a person may name by a link.
        parents = (workspace / parent for parent in relative.parents[:-1])
        place = workspace / relative
        is_folder = place.is_dir() and not place.is_symlink()
        if not is_folder and not any(parent.is_symlink() for parent in parents):
            yield path


def _git(
    workspace: Path, *arguments: str, stdin: bytes = b""
) -> tuple[int, bytes, bytes]:
    """Run git as the person does, with its configuration and hooks."""
    done = subprocess.run(
        # A file may have the name `*.py`, which would mean many files.
        ["git", "--literal-pathspecs", *arguments],
        cwd=workspace,
        input=stdin,
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
