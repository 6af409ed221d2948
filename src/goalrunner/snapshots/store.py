"""The snapshots of a workspace, in a private store outside of it: one git folder and one index for each workspace.

A snapshot contains every regular file with its executable bit, and every symbolic link, that the ignore rules of the start do
not cover, also in nested repositories. It contains no empty folders, times, owners, pipes, sockets or devices, and nothing named
`.git`. Files over 50 MB and paths that git cannot store are kept as hashes; unreadable files are kept as names.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from goalrunner.core.errors import WorkspaceError
from goalrunner.core.observation import Change, Snapshot
from goalrunner.snapshots.diff import CACHES, Patterns, SnapshotReader
from goalrunner.snapshots.files import LARGE, Look, QuickLook, Sorter, manifest
from goalrunner.snapshots.git import Git, GitFailed, Repository, both, repository_at
from goalrunner.snapshots.index import Index
from goalrunner.snapshots.objects import (
    Claim,
    Entry,
    is_crowded,
    keep_snapshot,
    make_store,
    packs_well,
    raw,
    shown,
    store_name,
    write_blob,
    write_tree,
)
from goalrunner.snapshots.repositories import RepositoryStates, Start, head_of, ignore_rules, parent_of, tracked_paths
from goalrunner.snapshots.restore import Placing


class SnapshotStore(SnapshotReader):
    """The port `Workspace`. The first snapshot locks the workspace; `close` releases it.

    `outputs` are patterns of files that checks write. `start` is the folder with the ignore rules of the run, which a
    resumed run reads again; without one, a new store reads the current rules at its first snapshot. Raise
    WorkspaceError if no git is found outside of the workspace.
    """

    def __init__(
        self,
        workspace: Path,
        home: Path,
        *,
        outputs: Sequence[str] = (),
        start: Path | None = None,
        large: int = LARGE,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.workspace = workspace.resolve()
        self._home = home.resolve()
        self.folder = self._home / "stores" / store_name(self.workspace)
        self._kept = start
        self._start = Start(start or self.folder / "start")
        self._sorter = Sorter(self.workspace, large)
        git = Git(self.folder, self.workspace, os.environ if environ is None else environ)
        super().__init__(git, Patterns((*CACHES, *outputs), own=not outputs))
        self._states = RepositoryStates(git)
        self._parent: Repository | None = None
        self._claim: Claim | None = None
        self._run = start.parent.name if start is not None else ""
        """The id of the run whose start is kept."""
        self._index: Index | None = None
        self._tracked: set[bytes] | None = None
        self._last: Snapshot | None = None
        self._quick = QuickLook(os.fsencode(self.workspace))
        self._seen: Look | None = None
        """The look at the workspace that belongs to the last snapshot, if it is known."""
        self._content: tuple[str, dict[bytes, Entry]] | None = None
        self._ignored: tuple[Look | None, list[bytes]] | None = None
        """The ignored paths, and the look with which they were found; None in a large workspace."""
        self._turn = asyncio.Lock()

    def close(self) -> None:
        """Release the workspace. Snapshots can still be read."""
        self._index = self._tracked = self._seen = self._content = self._ignored = None
        if self._claim:
            self._claim.close()
            self._claim = None

    async def snapshot(self) -> Snapshot:
        """Take a snapshot. Raise WorkspaceError if the folder is gone, cannot be read, or another run is active in it."""
        async with self._turn:
            try:
                try:
                    return await self._take(await self._ready())
                except GitFailed:  # a power cut damaged the index or an object: create both again
                    self._index = self._seen = None
                    (self.folder / "index").unlink(missing_ok=True)
                    return await self._take(await self._ready())
            except OSError as error:
                hint = "check that the disk has space and that GOAL_HOME is writable"
                raise WorkspaceError(f"no snapshot of {self.workspace}: {error}", hint) from error

    async def ignored_names(self) -> tuple[str, ...]:
        """Return the ignored paths, sorted, in the form of `os.fsdecode`; an ignored folder ends with a slash."""
        async with self._turn:
            found = await self._ignored_paths()
        home = f"{os.path.relpath(self._home, self.workspace)}/"
        return tuple(sorted(name for name in map(os.fsdecode, found) if not home.startswith(name)))

    async def checkout(self, snapshot: Snapshot, folder: Path) -> None:
        """Write a snapshot into an empty folder outside of the workspace.

        Content that the store does not keep is copied from the workspace if it is unchanged there. Otherwise raise
        WorkspaceError, naming the paths; the caller then removes the folder.
        """
        place = folder.resolve()
        if place.is_relative_to(self.workspace) or self.workspace.is_relative_to(place):
            raise WorkspaceError(f"{folder} and the workspace {self.workspace} contain each other")
        await Placing(self, self._sorter).checkout(snapshot, place)

    async def restore(self, snapshot: Snapshot, paths: Sequence[str] = ()) -> tuple[Change, ...]:
        """Restore the files of the workspace, or only these `paths`, from a snapshot; return what changed.

        Ignored files, the data of repositories and empty folders stay as they are. The state before is kept as a
        snapshot. Raise WorkspaceError naming the paths that could not be restored, after restoring all others.
        """
        before = await self.snapshot()
        changes = await self._differing(before, snapshot)
        wanted = set(paths) or changes
        placing = Placing(self, self._sorter)
        async with self._turn:
            (await self._ready()).doubt(map(raw, changes))
            self._seen = None
            if paths:
                await placing.restore_paths(before, snapshot, wanted & changes)
            else:
                await placing.restore(before, snapshot)
        after = await self.snapshot()
        if left := wanted & await self._differing(after, snapshot):
            names = ", ".join(sorted(left)[:10])
            hint = "all other paths were restored; these were not stored or cannot be written"
            raise WorkspaceError(f"not restored: {names}", hint)
        return tuple(change for change in await self.all_changes(before, after) if change.kind != "repository")

    async def _differing(self, old: Snapshot, new: Snapshot) -> set[str]:
        return {change.path for change in await self.all_changes(old, new) if change.kind != "repository"}

    async def _ready(self) -> Index:
        if self._index:
            return self._index
        if not self.workspace.is_dir():
            raise WorkspaceError(f"the workspace {self.workspace} does not exist any more")
        await asyncio.to_thread(make_store, self.folder)
        self._claim = self._claim or Claim(self.workspace, self.folder / "lock", self._run)
        (self.folder / "index.lock").unlink(
            missing_ok=True
        )  # left by a process that was killed: this object holds the lock
        packs, _ = await both(packs_well(self.git), self._begin())
        index = Index(self.git, self._start, self._sorter, packs=packs)
        await index.settle(self._tracked)
        if await asyncio.to_thread(is_crowded, self.folder):
            await self.git.run("gc", "--auto", "--quiet")
        self._index = index
        return index

    async def _begin(self) -> None:
        self._parent = await parent_of(self.git)
        if self._tracked is None and not (self._kept and self._start.frozen):
            self._tracked = await self._freeze()

    async def _freeze(self) -> set[bytes]:
        """Save the current ignore rules; return the paths that the user's repositories track."""
        lines, repositories = await ignore_rules(self.git, self._parent, self._home)
        await asyncio.to_thread(self._start.write, lines, await head_of(self.git))
        return await tracked_paths(self.git, [*repositories, *([self._parent] if self._parent else [])])

    async def _take(self, index: Index) -> Snapshot:
        content, unstored = await self._read(index)
        found = await asyncio.to_thread(self._repositories, index.folders)
        repository = {self._named(one.root): await self._states.state(one) for one in found}
        kept = json.dumps(repository, sort_keys=True).encode() if repository else b""
        return await asyncio.to_thread(self._keep, content, manifest(unstored) if unstored else b"", kept)

    async def _read(self, index: Index) -> tuple[str, dict[bytes, Entry]]:
        """Return the tree and the entries that are not in it; git is not asked if nothing changed."""
        # The look comes before git reads: what changes in between differs at the next look.
        look = await self._look(index)
        before, content = self._seen, self._content
        if look and before and content:
            same = await asyncio.to_thread(self._quick.unchanged, before, look)
            if same:
                return content
        self._content = await index.update()
        self._seen = look
        return self._content

    async def _look(self, index: Index) -> Look | None:
        """Look at the workspace, after asking git what is ignored if names are new; None in a large workspace."""
        known = self._ignored
        if known is not None:
            look = await asyncio.to_thread(self._quick.look, known[1])
            if look is None or (known[0] is not None and known[0].names == look.names):
                return look
        ignored = [path for path in await index.ignored() if not index.watches(path)]
        again = await asyncio.to_thread(self._quick.look, ignored)
        self._ignored = again, ignored
        return again

    async def _ignored_paths(self) -> list[bytes]:
        index = await self._ready()
        if await self._look(index) is not None and self._ignored is not None:
            return self._ignored[1]
        return await index.ignored()

    def _repositories(self, folders: Collection[bytes]) -> list[Repository]:
        """Return the repositories in `folders`, and the one around the workspace."""
        root = os.fsencode(self.workspace)
        places = [folder for folder in folders if os.path.lexists(os.path.join(root, folder, b".git"))]
        real = (self.workspace / os.fsdecode(folder) for folder in places if self._sorter.is_folder(folder))
        found = [repository for repository in map(repository_at, real) if repository]
        return found + ([self._parent] if self._parent else [])

    def _named(self, root: Path) -> str:
        if not root.is_relative_to(self.workspace):
            return os.path.relpath(root / ".git", self.workspace)
        return shown(os.fsencode((root / ".git").relative_to(self.workspace)))

    def _keep(self, content: str, unstored: bytes, repository: bytes) -> Snapshot:
        blobs = {"unstored": write_blob(self.folder, unstored)} if unstored else {}
        tree = write_tree(self.folder, trees={"content": content}, blobs=blobs)
        state = write_blob(self.folder, repository) if repository else ""
        if self._last is None or (tree, state) != (self._last.tree, self._last.repository):
            self._last = keep_snapshot(self.folder, tree, state)
        return self._last
