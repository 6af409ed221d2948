"""What git converts between a commit and a work tree: line ends, encodings, and what
filters change, such as those of Git LFS.

Snapshots have the bytes of the work tree. A commit of them, and a comparison with one,
needs the other form. Git converts with the configuration of the person, as it does for
`git add` and `git checkout`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from goalrunner.copies.merging import index_rows, snapshot_with
from goalrunner.core.errors import WorkspaceError
from goalrunner.core.observation import Snapshot
from goalrunner.exports.change import person_environment
from goalrunner.snapshots import objects
from goalrunner.snapshots.git import git_program
from goalrunner.snapshots.objects import Entry
from goalrunner.snapshots.paths import raw
from goalrunner.snapshots.repositories import Repository
from goalrunner.snapshots.store import SnapshotStore, revision_snapshot

_SETTINGS = {
    # A file system, or a sparse checkout, may have taught the repository otherwise.
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.sparseCheckout": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    # A mixture of line ends is no error: the file is what was verified.
    "core.safecrlf": "false",
}
_LINK = "120000"


@dataclass(frozen=True)
class _WorkTree:
    """A temporary work tree, and an index with the files of a commit."""

    repository: Repository
    folder: Path
    index: Path
    environ: Mapping[str, str]

    async def ask(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Return the output of git. Raise WorkspaceError if it fails."""
        argv = [git_program(self.repository.root, self.environ)]
        for name, value in _SETTINGS.items():
            argv += ["-c", f"{name}={value}"]
        argv += [
            f"--git-dir={self.repository.git_dir}",
            f"--work-tree={self.folder}",
            *arguments,
        ]
        done = await asyncio.to_thread(
            subprocess.run,
            argv,
            cwd=self.folder,
            env={
                **person_environment(self.environ),
                "GIT_INDEX_FILE": str(self.index),
            },
            input=stdin,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            words = done.stderr.decode(errors="replace").strip()
            raise WorkspaceError(
                f"git {arguments[0]} failed in {self.repository.root}: {words}"
            )
        output: bytes = done.stdout
        return output


@dataclass(frozen=True)
class CommitFiles:
    """The files of a commit below a workspace, and commits that differ from it.

    Paths are those in the workspace. Raise WorkspaceError if git fails.
    """

    store: SnapshotStore
    repository: Repository
    commit: str
    environ: Mapping[str, str]

    @property
    def folder(self) -> str:
        """The workspace relative to its repository; empty, or with a slash."""
        if self.store.workspace == self.repository.root:
            return ""
        inside = self.store.workspace.relative_to(self.repository.root)
        return f"{inside.as_posix()}/"

    @asynccontextmanager
    async def _work_tree(self) -> AsyncIterator[_WorkTree]:
        in_store = self.store.folder
        with tempfile.TemporaryDirectory(prefix="tmp_", dir=in_store) as scratch:
            folder, index = Path(scratch, "tree"), Path(scratch, "index")
            folder.mkdir()
            work_tree = _WorkTree(self.repository, folder, index, self.environ)
            await work_tree.ask("read-tree", self.commit)
            yield work_tree

    async def tree_with(self, entries: Mapping[str, Entry | None]) -> str:
        """Return the tree of the commit with other entries, as `git add` would write
        them. They are those of snapshots; None removes a path.
        """
        ask = self.store.git.ask
        async with self._work_tree() as work_tree:
            # The bytes of the snapshots become files, from which `git add` converts.
            index = work_tree.index.with_name("raw-index")
            rows = index_rows(entries, self.folder)
            await ask("update-index", "-z", "--index-info", stdin=rows, index=index)
            checkout = ("checkout-index", "--all", "--force")
            await ask(*checkout, index=index, tree=work_tree.folder)
            removed: list[bytes] = []
            written: list[bytes] = []
            for path in sorted(entries):
                line = raw(self.folder + path) + b"\0"
                (removed if entries[path] is None else written).append(line)
            # Removed paths come first: a folder may replace a file. Without --force,
            # git refuses those of a folder that a link replaces.
            removing = ("update-index", "--force-remove", "-z", "--stdin")
            await work_tree.ask(*removing, stdin=b"".join(removed))
            adding = ("update-index", "--add", "--replace", "-z", "--stdin")
            await work_tree.ask(*adding, stdin=b"".join(written))
            return (await work_tree.ask("write-tree")).decode().strip()

    async def snapshot_like(self, other: Snapshot) -> Snapshot:
        """Return the snapshot of the commit, with files as git checks them out where
        their bytes in the commit differ from another snapshot.
        """
        committed = await revision_snapshot(self.store, self.commit, self.environ)
        entries = await self.store.entries(other)
        paths = []
        for change in await self.store.changes(committed, other):
            if change.kind == "modified" and entries[change.path].stored:
                paths.append(change.path)
        return await self._checked_out(committed, paths)

    async def snapshot_at(self, paths: Collection[str]) -> Snapshot:
        """Return the snapshot of the commit, with these files as git checks them out.

        All others have their bytes in the commit.
        """
        committed = await revision_snapshot(self.store, self.commit, self.environ)
        return await self._checked_out(committed, paths)

    async def _checked_out(self, onto: Snapshot, paths: Collection[str]) -> Snapshot:
        """Return a snapshot of bytes of the commit, with some files as git checks them
        out.
        """
        committed = await self.store.entries(onto)
        regular = []
        for path in paths:
            # Git converts nothing in the target of a link.
            if path in committed and committed[path].mode != _LINK:
                regular.append(path)
        if not regular:
            return onto
        converted: dict[str, Entry | None] = {}
        async with self._work_tree() as work_tree:
            stdin = b"".join(raw(self.folder + path) + b"\0" for path in regular)
            checkout = ("checkout-index", "-z", "--stdin", "--force")
            await work_tree.ask(*checkout, stdin=stdin)
            for path in regular:
                place = work_tree.folder / os.fsdecode(raw(self.folder + path))
                content = await asyncio.to_thread(place.read_bytes)
                blob = objects.write_blob(self.store.folder, content)
                if blob != committed[path].blob:
                    converted[path] = Entry(committed[path].mode, blob)
        if not converted:
            return onto
        return await snapshot_with(self.store, onto, converted)
