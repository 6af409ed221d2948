"""The snapshots of a workspace, in a private store outside of it.

Each workspace has one store: one git folder and one index. A snapshot contains every
regular file with its executable bit, and every symbolic link, that the ignore rules of
the start do not cover, also in nested repositories. It contains no empty folders,
times, owners, pipes, sockets or devices, and nothing named `.git`. Files over 50 MB and
paths that git cannot store are stored as hashes; unreadable files are stored as names.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import (
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from goalrunner.core.errors import (
    UsageError,
    WorkspaceError,
    some,
)
from goalrunner.core.observation import Change, Snapshot
from goalrunner.snapshots import objects, user_index
from goalrunner.snapshots.file_times import ChangedSince, is_overlay
from goalrunner.snapshots.files import (
    LARGE,
    Sorter,
    manifest,
)
from goalrunner.snapshots.git import (
    Git,
    GitFailed,
    both,
)
from goalrunner.snapshots.ignore_rules import Start, ignore_rules
from goalrunner.snapshots.index import Index, packs_well
from goalrunner.snapshots.look import Look, look_at
from goalrunner.snapshots.objects import Entry, object_id
from goalrunner.snapshots.paths import printable_path, raw
from goalrunner.snapshots.patterns import CACHES, Patterns
from goalrunner.snapshots.reader import SnapshotReader
from goalrunner.snapshots.repositories import (
    Repository,
    RepositoryStates,
    committed_paths,
    enclosing,
    head_of,
    parent_of,
    repository_at,
    tracked_paths,
)
from goalrunner.snapshots.store_folder import (
    PathClaim,
    keep_settings,
    make_store,
    store_of,
)
from goalrunner.system.change_clock import ChangeClock


@dataclass(frozen=True)
class _Ignored:
    """The ignored paths of a workspace."""

    paths: list[bytes]
    look: Look | None
    """The look at the same names; None in a large workspace."""


class SnapshotStore(SnapshotReader):
    """Takes snapshots of a workspace, and restores them.

    The first snapshot locks the workspace; `close` releases it. `outputs` are patterns
    of files that checks write. `start` is the folder with the ignore rules of the run,
    which a resumed run reads again; without one, a new store reads the current rules at
    its first snapshot. `folder` is the store, by default that of the workspace in
    `home`. `prepare` is called before each snapshot. Raise WorkspaceError if git is on
    PATH only in the workspace.
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
        folder: Path | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.workspace = workspace.resolve()
        self._home = home.resolve()
        self.folder = folder or store_of(self.workspace, self._home)
        self._prepare = prepare
        self._has_run = start is not None
        self._start = Start(start or self.folder / "start")
        self._sorter = Sorter(self.workspace, large)
        if environ is None:
            environ = os.environ
        git = Git(self.folder, self.workspace, environ)
        super().__init__(git, Patterns((*CACHES, *outputs), builtin=not outputs))
        self._states = RepositoryStates(git)
        self._large = large
        self._is_first = True
        self._parent: Repository | None = None
        self._claim: PathClaim | None = None
        self._run = start.parent.name if start is not None else ""
        """The id of the run whose start is saved."""
        self._index: Index | None = None
        self._tracked: set[bytes] | None = None
        self._last: Snapshot | None = None
        self._root = os.fsencode(self.workspace)
        self._last_look: Look | None = None
        """The look at the workspace before `_content` was read."""
        self._content: tuple[str, dict[bytes, Entry]] = "", {}
        self._ignored: _Ignored | None = None
        self._committed: Mapping[str, str] | None = None
        # The index can be used by one task at a time.
        self._index_lock = asyncio.Lock()
        self.clock = ChangeClock()
        """The clock of the times that `touched` returns."""

    def close(self) -> None:
        """Release the workspace. Snapshots can still be read."""
        self._index = self._tracked = self._last_look = self._ignored = None
        if self._claim:
            self._claim.close()
            self._claim = None

    async def snapshot(self) -> Snapshot:
        """Take a snapshot.

        Raise WorkspaceError if the folder is gone, cannot be read, or another run is
        active in it.
        """
        async with self._index_lock:
            try:
                if self._prepare is not None:
                    await asyncio.to_thread(self._prepare)
                try:
                    return await self._take(await self._ready())
                except GitFailed:
                    # A power cut damaged the index or an object: both are made again.
                    self._index = self._last_look = None
                    await asyncio.to_thread(user_index.forget_index, self.folder)
                    return await self._take(await self._ready())
            except OSError as error:
                raise WorkspaceError(
                    f"no snapshot of {self.workspace}: {error}",
                    "check that the disk has space and that GOAL_HOME is writable",
                ) from error

    async def touched(self, since: int) -> dict[str, int] | None:
        """Return when the files of the last snapshot and their folders changed.

        Changes before `since` are left out; times are ctimes in nanoseconds. A folder
        ends with a slash, the workspace is "/"; its time is left out if a cache or an
        ignored entry was made in it just then. A repository has the time at which HEAD
        or its index changed. Caches and the goal's `outputs` are left out. Return None
        if the file system has another clock.
        """
        async with self._index_lock:
            index = await self._ready()
            # The look has listed them, so git need not be asked.
            if self._last_look:
                files = set(self._last_look.files)
            else:
                _, unstored = self._content
                files = {*await index.paths(), *unstored}
            folders = set(index.folders)
            return await asyncio.to_thread(self._touched, since, files, folders)

    def _touched(
        self,
        since: int,
        files: set[bytes],
        folders: set[bytes],
    ) -> dict[str, int] | None:
        repositories = self._repositories(folders)

        def is_watched(path: bytes) -> bool:
            if path in files and not self._is_cache_or_output(path):
                return True
            return path in folders and not self._is_cache_or_output(path + b"/")

        changed = ChangedSince(self._root, since, is_watched)
        changed.look(files, folders)
        if changed.in_future:
            return None
        times = dict(changed.times)
        # On an overlay, a file that is only opened for writing is copied up, and has a
        # new ctime.
        if changed.older_content and is_overlay(self.workspace):
            for path in changed.older_content:
                del times[path]
        touched = {
            printable_path(path): time
            for path, time in times.items()
            if not self._is_cache_or_output(path)
        }
        for repository in repositories:
            time = repository.changed_since(since)
            if time:
                touched[self._git_path(repository)] = time
        return touched

    def _git_path(self, repository: Repository) -> str:
        """Return the path of a `.git`, as it is in a snapshot."""
        place = os.fsencode(repository.root / ".git")
        return printable_path(os.path.relpath(place, self._root))

    def is_cache_or_output(self, path: str) -> bool:
        """Return whether a path is a cache, or one of the goal's `outputs`."""
        return self._caches_and_outputs.match(path)

    def _is_cache_or_output(self, path: bytes) -> bool:
        return self.is_cache_or_output(printable_path(path))

    async def committed(self) -> Mapping[str, str] | None:
        """Return the content of the commit of the start of the run, by path.

        It is in the form of `differences`. Return None without a repository: all
        content can be lost then. If the commit cannot be read any more, the result is
        empty.
        """
        async with self._index_lock:
            await self._ready()
            if self._committed is None:
                commit = self._start.commit or ""
                self._committed = await committed_paths(self.git, commit)
            return self._committed

    async def ignored_names(self) -> tuple[str, ...]:
        """Return the ignored paths, sorted, in the form of `os.fsdecode`.

        An ignored folder ends with a slash.
        """
        async with self._index_lock:
            index = await self._ready()
            look = await self._look(index)
            if look is not None and self._ignored is not None:
                paths = self._ignored.paths
            else:
                paths = await index.ignored()
        # GOAL_HOME is no part of the workspace, and neither are the folders around it.
        home = f"{os.path.relpath(self._home, self.workspace)}/"
        names = []
        for name in map(os.fsdecode, paths):
            holds_home = name.endswith("/") and home.startswith(name)
            if not holds_home:
                names.append(name)
        return tuple(sorted(names))

    async def restore(
        self,
        snapshot: Snapshot,
        paths: Sequence[str] = (),
    ) -> tuple[Change, ...]:
        """Restore the files of the workspace from a snapshot; return what changed.

        With `paths`, only these are restored. Ignored files, the data of repositories
        and empty folders stay as they are. The state before is kept as a snapshot.
        Raise WorkspaceError naming the paths that could not be restored, after
        restoring all others.
        """
        before = await self.snapshot()
        differing = await self._differing(before, snapshot)
        async with self._index_lock:
            # Files that are restored may get the times that the index has.
            (await self._ready()).doubt(map(raw, differing))
            self._last_look = None
            if paths:
                await self._restore_paths(before, snapshot, differing & set(paths))
            else:
                await self._restore_all(before, snapshot, differing)
        after = await self.snapshot()
        not_restored = await self._differing(after, snapshot)
        not_restored &= set(paths) or differing
        if not_restored:
            names = ", ".join(sorted(not_restored)[:10])
            raise WorkspaceError(
                f"not restored: {names}",
                "all other paths were restored; "
                "these were not stored or cannot be written",
            )
        return tuple(
            change
            for change in await self.all_changes(before, after)
            if change.kind != "repository"
        )

    async def _restore_all(
        self,
        before: Snapshot,
        snapshot: Snapshot,
        differing: set[str],
    ) -> None:
        """Restore all files; `differing` are the paths that differ before."""
        present, restored = await self.entries(before), await self.entries(snapshot)
        surplus = differing & present.keys() - restored.keys()
        # Git removes the others: they are in its index.
        unstored = [path for path in surplus if not present[path].stored]
        await asyncio.to_thread(self.remove_files, unstored)
        tree = f"{snapshot.tree}:content"
        await self.git.ask("read-tree", "--reset", "-u", tree, tree=self.workspace)

    async def _restore_paths(
        self,
        before: Snapshot,
        snapshot: Snapshot,
        paths: set[str],
    ) -> None:
        """Restore some of the paths that differ."""
        present, restored = await self.entries(before), await self.entries(snapshot)
        surplus = paths & present.keys() - restored.keys()
        await asyncio.to_thread(self.remove_files, surplus)
        checked_out = list(map(raw, paths & restored.keys()))
        if not checked_out:
            return
        # With an index of its own, because git writes the paths into the index.
        with tempfile.TemporaryDirectory(
            prefix="tmp_",
            dir=self.folder,
        ) as scratch:
            await self.git.ask(
                "checkout",
                f"{snapshot.tree}:content",
                "--pathspec-from-file=-",
                "--pathspec-file-nul",
                stdin=b"".join(path + b"\0" for path in checked_out),
                tree=self.workspace,
                index=Path(scratch, "index"),
            )

    def remove_files(self, paths: Collection[str]) -> None:
        """Remove files of the workspace, but not through a link. Raise OSError."""
        for path in map(raw, paths):
            place = os.path.join(self._root, path)
            if self._sorter.is_folder(os.path.dirname(path)) and os.path.lexists(place):
                os.unlink(place)

    async def _differing(self, old: Snapshot, new: Snapshot) -> set[str]:
        """Return the paths that differ, without repositories."""
        return {
            change.path
            for change in await self.all_changes(old, new)
            if change.kind != "repository"
        }

    async def _ready(self) -> Index:
        """Lock the workspace and prepare the index, unless that was done."""
        if self._index:
            await asyncio.to_thread(self._keep_own_files)
            return self._index
        if not self.workspace.is_dir():
            raise WorkspaceError(
                f"the workspace {self.workspace} does not exist any more"
            )
        await asyncio.to_thread(make_store, self.folder)
        if self._claim is None:
            self._claim = PathClaim(self.workspace, self.folder / "lock", self._run)
        # It is of a process that was killed: this object holds the lock.
        (self.folder / "index.lock").unlink(missing_ok=True)
        packs, _ = await both(packs_well(self.git), self._begin())
        stored = await self._take_over()
        await asyncio.to_thread(self._start.keep_rules)
        index = Index(
            self.git,
            self._start,
            self._sorter,
            packs=packs,
            stored=stored,
        )
        await index.settle(self._tracked)
        # The store grows with each snapshot.
        await self.git.run("gc", "--auto", "--quiet")
        self._index = index
        return index

    def _keep_own_files(self) -> None:
        keep_settings(self.folder)
        self._start.keep_rules()

    async def _begin(self) -> None:
        """Save the current ignore rules, unless the run's were saved before.

        Then read what the user's repositories track.
        """
        self._parent = await parent_of(self.git)
        if self._tracked is not None or (self._has_run and self._start.frozen):
            return
        lines, repositories = await ignore_rules(self.git, self._parent, self._home)
        await asyncio.to_thread(self._start.write, lines, await head_of(self.git))
        if self._parent:
            repositories.append(self._parent)
        self._tracked = await tracked_paths(self.git, repositories)

    async def _take_over(self) -> Collection[bytes]:
        """Let a new store begin with what the user's repository has.

        Return the paths whose content it may have.
        """
        repository = self._parent or repository_at(self.workspace)
        has_index = (self.folder / "index").exists()
        is_new = self._is_first and self._tracked is not None and not has_index
        # Not later in a run: the agent can write that repository.
        self._is_first = False
        if not is_new or repository is None:
            return ()
        if not await user_index.take_over(self.git, repository, self._large):
            return ()
        return self._tracked or ()

    async def verify(
        self,
        snapshot: Snapshot,
        paths: Collection[str] | None = None,
    ) -> None:
        """Compare files with a snapshot if their content was taken over.

        That is, if the index of the user's repository named it. `paths` are all by
        default. To be called before the agent works. Raise WorkspaceError if the index
        was wrong.
        """
        unread = user_index.taken_over(self.folder)
        if paths is not None:
            unread &= set(map(raw, paths))
        if not unread:
            return
        recorded = {
            printable_path(path): blob.decode()
            for _, blob, path in await self._rows_of(snapshot)
            if path in unread
        }
        wrong: set[str] = set()
        for path, blob in (await self._hashed(unread)).items():
            if recorded.get(path, blob) != blob:
                wrong.add(path)
        # A file may have changed since the snapshot.
        if wrong:
            wrong -= await self._differing(snapshot, await self.snapshot())
        if wrong:
            async with self._index_lock:
                (await self._ready()).doubt(map(raw, wrong))
                self._last_look = None
            raise WorkspaceError(
                f"{some(sorted(wrong))}: the index of the repository names another "
                "content than the file has, although the file did not change",
                "git shows the difference after `touch` of the file; "
                "a new run reads the file itself: goal run",
            )
        await asyncio.to_thread(user_index.note_verified, self.folder, unread)

    async def _hashed(self, paths: Collection[bytes]) -> dict[str, str]:
        """Return the blobs that files and links would have now, by path."""
        by_kind = await asyncio.to_thread(self._sorter.sort, paths)
        blobs: dict[str, str] = {}
        files: list[bytes] = []
        for path in by_kind.storable:
            place = os.path.join(self._root, path)
            if os.path.islink(place):
                blobs[printable_path(path)] = object_id("blob", os.readlink(place))
            else:
                files.append(path)
        # Snapshots have the bytes of files, without filters.
        output = await self.git.ask(
            "hash-object",
            "--no-filters",
            "--stdin-paths",
            stdin=b"".join(path + b"\n" for path in files),
            tree=self.workspace,
        )
        for path, blob in zip(files, output.decode().split(), strict=True):
            blobs[printable_path(path)] = blob
        return blobs

    async def _take(self, index: Index) -> Snapshot:
        content, unstored = await self._read(index)
        states: dict[str, str] = {}
        repositories = await asyncio.to_thread(self._repositories, index.folders)
        for repository in repositories:
            path = self._git_path(repository)
            states[path] = await self._states.state(repository)
        return await asyncio.to_thread(self._keep, content, unstored, states)

    async def _read(self, index: Index) -> tuple[str, dict[bytes, Entry]]:
        """Return the tree and the entries that are not in it.

        Git is asked only if a look shows a change, or is not possible.
        """
        # The look comes before git reads: what changes in between differs at the next
        # look.
        look = await self._look(index)
        if look and self._last_look:
            with contextlib.suppress(OSError):
                if self._last_look.is_same(look, self._root):
                    self._last_look = look
                    return self._content
        # None while git works, in case it fails.
        self._last_look = None
        self._content = await index.update()
        self._last_look = look
        return self._content

    async def _look(self, index: Index) -> Look | None:
        """Look at the workspace. Return None in a large workspace.

        Git is asked what is ignored if names have changed.
        """
        if index.is_large or index.misses_tracked:
            self._ignored = None
            return None
        if self._ignored:
            before = self._ignored.look
            if before is None:
                return None
            look = await asyncio.to_thread(look_at, self._root, self._ignored.paths)
            if look is None or before.names == look.names:
                return look
        ignored = await index.ignored()
        look = await asyncio.to_thread(look_at, self._root, ignored)
        # A path that appeared between the two is in the names, but may be missing in
        # the list.
        is_listed = look is None or await index.ignored() == ignored
        self._ignored = _Ignored(ignored, look) if is_listed else None
        return look

    def _repositories(self, folders: Collection[bytes]) -> list[Repository]:
        """Return the repositories in `folders`, and the one around the workspace."""
        repositories: list[Repository] = []
        for folder in folders:
            git_path = os.path.join(self._root, folder, b".git")
            # Through a link, a folder leads to a repository somewhere else.
            if not os.path.lexists(git_path) or not self._sorter.is_folder(folder):
                continue
            repository = repository_at(self.workspace / os.fsdecode(folder))
            if repository:
                repositories.append(repository)
        if self._parent:
            repositories.append(self._parent)
        return repositories

    def _keep(
        self,
        content: str,
        unstored: dict[bytes, Entry],
        states: dict[str, str],
    ) -> Snapshot:
        """Write a snapshot into the store, unless it is the same as the last one."""
        blobs: dict[str, str] = {}
        if unstored:
            blobs["unstored"] = objects.write_blob(self.folder, manifest(unstored))
        tree = objects.write_tree(
            self.folder,
            trees={"content": content},
            blobs=blobs,
        )
        state = ""
        if states:
            data = json.dumps(states, sort_keys=True).encode()
            state = objects.write_blob(self.folder, data)
        # Nothing is written for rounds without a change.
        last = self._last
        if last is None or (last.tree, last.repository) != (tree, state):
            self._last = last = objects.keep_snapshot(self.folder, tree, state)
        return last


async def revision_snapshot(
    store: SnapshotStore,
    revision: str,
    environ: Mapping[str, str],
) -> Snapshot:
    """Return the snapshot of a revision of the repository around the workspace.

    The store has taken a snapshot before. It has the committed bytes, without
    submodules. Raise UsageError without a repository or such a revision, and
    WorkspaceError if the commit is damaged or incomplete.
    """
    repository = enclosing(store.workspace)
    if repository is None:
        raise UsageError(
            f"{store.workspace} is in no git repository, "
            f"so it has no revision {revision}"
        )
    git = Git(store.folder, store.workspace, environ)
    answer = await git.run(
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{revision}^{{commit}}",
        repository=repository.git_dir,
    )
    commit = answer.output.decode().strip()
    # The objects of a repository with SHA-256 cannot be copied.
    if answer.code != 0 or len(commit) != 40:
        raise UsageError(
            f"{revision} is no commit of {repository.root}",
            "git log --oneline lists the commits",
        )
    folder = b""
    if store.workspace != repository.root:
        inside = os.path.relpath(store.workspace, repository.root)
        folder = os.fsencode(f"{inside}/")
    try:
        content = await _copied(git, repository.git_dir, commit, folder)
    except GitFailed as error:
        raise WorkspaceError(
            f"{revision} cannot be read from {repository.root}: {error.message}",
            "git fsck checks the repository",
        ) from error
    tree = objects.write_tree(
        store.folder,
        trees={"content": content},
        blobs={},
    )
    return objects.keep_snapshot(store.folder, tree, "")


async def _copied(
    git: Git,
    repository: Path,
    commit: str,
    folder: bytes,
) -> str:
    """Copy a commit, or one folder of it, into the store, without filters.

    Return the tree of its files.
    """
    ask = partial(git.ask, repository=repository)
    name = commit.encode() + b":" + folder.rstrip(b"/")
    answer = await git.run("rev-parse", "--verify", name, repository=repository)
    if folder and answer.code != 0:
        # The commit does not have the folder.
        return (await git.ask("mktree")).decode().strip()
    tree = answer.output.strip()
    # The tree alone: with a path, git leaves out a commit that does not change it.
    names = await ask("rev-list", "--objects", "--no-object-names", tree)
    # Most of them are in the snapshots of the workspace.
    check = ("cat-file", "--batch-check=%(objectname)", "--buffer")
    rows = (await git.ask(*check, stdin=names)).splitlines(keepends=True)
    missing = [row.split()[0] + b"\n" for row in rows if row.endswith(b" missing\n")]
    if missing:
        stdin = b"".join(missing)
        pack = await ask("pack-objects", "--stdout", "-q", stdin=stdin)
        # It computes the ids again, so that an object that was replaced in the
        # repository is missing in the next call.
        await git.ask("index-pack", "--stdin", stdin=pack)
    listed = await git.ask("ls-tree", "-r", "-z", tree)
    entries: list[bytes] = []
    for row in listed.split(b"\0")[:-1]:
        # A submodule is no file.
        if not row.startswith(b"160000"):
            entries.append(row + b"\0")
    with tempfile.TemporaryDirectory() as scratch:
        index = Path(scratch) / "index"
        stdin = b"".join(entries)
        await git.ask(
            "update-index",
            "-z",
            "--index-info",
            stdin=stdin,
            index=index,
        )
        return (await git.ask("write-tree", index=index)).decode().strip()
