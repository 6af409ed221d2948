"""The content of the workspace at a git revision, as a snapshot."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.core.observation import Snapshot
from goalrunner.snapshots.git import Git, GitFailed, enclosing
from goalrunner.snapshots.objects import keep_snapshot, write_tree
from goalrunner.snapshots.store import SnapshotStore

_SUBMODULE = b"160000"


async def revision_snapshot(store: SnapshotStore, revision: str, environ: Mapping[str, str]) -> Snapshot:
    """Return the snapshot of a revision of the repository around the workspace; the store has taken one before.

    It has the committed bytes, without submodules. Raise UsageError without a repository or such a revision, and
    WorkspaceError if the commit is damaged or incomplete.
    """
    found = enclosing(store.workspace)
    if found is None:
        raise UsageError(f"{store.workspace} is in no git repository, so it has no revision {revision}")
    git = Git(store.folder, store.workspace, environ)
    named = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    answer = await git.run(*named, repository=found.git_dir)
    commit = answer.output.decode().strip()
    if answer.code != 0 or len(commit) != 40:
        raise UsageError(f"{revision} is no commit of {found.root}", "git log --oneline lists the commits")
    inside = os.path.relpath(store.workspace, found.root)
    try:
        content = await _copied(git, found.git_dir, commit, b"" if inside == "." else os.fsencode(f"{inside}/"))
    except GitFailed as error:
        raise WorkspaceError(
            f"{revision} cannot be read from {found.root}: {error.message}", "git fsck checks the repository"
        ) from error
    tree = write_tree(store.folder, trees={"content": content}, blobs={})
    return keep_snapshot(store.folder, tree, "")


async def _copied(git: Git, repository: Path, commit: str, folder: bytes) -> str:
    """Copy a commit, or one folder of it, into the store, without filters; return the tree of its files.

    `index-pack` computes the ids of the objects again, so that one that was replaced in the repository is not found.
    """
    ask = partial(git.ask, repository=repository)
    below = ("--", folder) if folder else ()
    names = await ask("rev-list", "--objects", "--no-object-names", "--no-walk", commit, *below)
    await git.ask("index-pack", "--stdin", stdin=await ask("pack-objects", "--stdout", "-q", stdin=names))
    listed = await git.ask("ls-tree", "-r", "-z", "--full-tree", commit, *below[1:])
    rows = [row for row in listed.split(b"\0")[:-1] if not row.startswith(_SUBMODULE)]
    with tempfile.TemporaryDirectory() as scratch:
        index = Path(scratch) / "index"
        entries = (row.replace(b"\t" + folder, b"\t", 1) + b"\0" for row in rows)
        await git.ask("update-index", "-z", "--index-info", stdin=b"".join(entries), index=index)
        return (await git.ask("write-tree", index=index)).decode().strip()
