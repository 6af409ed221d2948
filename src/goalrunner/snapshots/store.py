"""The snapshots of a workspace, in a private store outside of it: one git folder and one index for each workspace.

A snapshot contains every regular file with its executable bit, and every symbolic link, that the ignore rules of the start do
not cover, also in nested repositories. It contains no empty folders, times, owners, pipes, sockets or devices, and nothing named
`.git`. Files over 50 MB and paths that git cannot store are kept as hashes; unreadable files are kept as names.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from goalrunner.core.errors import UsageError, WorkspaceError, some
from goalrunner.core.observation import Change, Snapshot
from goalrunner.snapshots import objects, user_index
from goalrunner.snapshots.file_times import ChangedSince, is_overlay
from goalrunner.snapshots.files import LARGE, Sorter, manifest
from goalrunner.snapshots.git import (
    Git,
    GitFailed,
    Repository,
    both,
    enclosing,
    repository_at,
)
from goalrunner.snapshots.index import Index
from goalrunner.snapshots.look import Look, look_at
from goalrunner.snapshots.objects import (
    Entry,
    PathClaim,
    object_id,
    printable_path,
    raw,
)
from goalrunner.snapshots.patterns import CACHES, Patterns
from goalrunner.snapshots.reader import SnapshotReader
from goalrunner.snapshots.repositories import (
    RepositoryStates,
    Start,
    committed_paths,
    head_of,
    ignore_rules,
    parent_of,
    tracked_paths,
)
from goalrunner.system.change_clock import ChangeClock


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
        self.folder = self._home / "stores" / objects.store_name(self.workspace)
        self._kept = start
        self._start = Start(start or self.folder / "start")
        self._sorter = Sorter(self.workspace, large)
        git = Git(
            self.folder, self.workspace, os.environ if environ is None else environ
        )
        super().__init__(git, Patterns((*CACHES, *outputs), builtin=not outputs))
        self._states = RepositoryStates(git)
        self._large = large
        self._is_first = True
        self._parent: Repository | None = None
        self._claim: PathClaim | None = None
        self._run = start.parent.name if start is not None else ""
        """The id of the run whose start is kept."""
        self._index: Index | None = None
        self._tracked: set[bytes] | None = None
        self._last: Snapshot | None = None
        self._root = os.fsencode(self.workspace)
        self._seen: Look | None = None
        """The look at the workspace before `_content` was read."""
        self._content: tuple[str, dict[bytes, Entry]] = "", {}
        self._ignored: tuple[Look | None, list[bytes]] | None = None
        """The ignored paths, and the look at the same names; None in a large workspace."""
        self._committed: Mapping[str, str] | None = None
        self._turn = asyncio.Lock()
        self.clock = ChangeClock()
        """The clock of the times that `touched` returns."""

    def close(self) -> None:
        """Release the workspace. Snapshots can still be read."""
        self._index = self._tracked = self._seen = self._ignored = None
        if self._claim:
            self._claim.close()
            self._claim = None

    async def snapshot(self) -> Snapshot:
        """Take a snapshot. Raise WorkspaceError if the folder is gone, cannot be read, or another run is active in it."""
        async with self._turn:
            try:
                try:
                    return await self._take(await self._ready())
                except (
                    GitFailed
                ):  # a power cut damaged the index or an object: create both again
                    self._index = self._seen = None
                    await asyncio.to_thread(user_index.forget_index, self.folder)
                    return await self._take(await self._ready())
            except OSError as error:
                hint = "check that the disk has space and that GOAL_HOME is writable"
                raise WorkspaceError(
                    f"no snapshot of {self.workspace}: {error}", hint
                ) from error

    async def touched(self, since: int) -> dict[str, int] | None:
        """Return when the files of the last snapshot and their folders changed, if not before `since` (nanoseconds, ctime).

        A folder ends with a slash, the workspace is "/"; its time is left out if a cache or an ignored entry was made in
        it just then. A repository has the time at which HEAD or its index changed. Caches and the goal's `outputs` are
        left out. Return None if the file system has another clock.
        """
        async with self._turn:
            index = await self._ready()
            files = (
                self._seen.files.keys()
                if self._seen
                else {*await index.paths(), *self._content[1]}
            )
            repositories = await asyncio.to_thread(self._repositories, index.folders)
            return await asyncio.to_thread(
                self._touched, since, set(files), set(index.folders), repositories
            )

    def _touched(
        self,
        since: int,
        files: set[bytes],
        folders: set[bytes],
        repositories: Sequence[Repository],
    ) -> dict[str, int] | None:
        def is_known(path: bytes) -> bool:
            return (path in files and not self._passes(path)) or (
                path in folders and not self._passes(path + b"/")
            )

        found = ChangedSince(self._root, since, is_known)
        found.look(files, folders)
        if found.in_future:
            return None
        # On an overlay, a file that is only opened for writing is copied up, and has a new ctime.
        copied = (
            found.kept
            if found.kept and is_overlay(self.workspace)
            else frozenset[bytes]()
        )
        changed = {
            path: at
            for path, at in found.times.items()
            if path not in copied and not self._passes(path)
        }
        times = {printable_path(path): at for path, at in changed.items()}
        for one in repositories:
            name = printable_path(
                os.path.relpath(os.fsencode(one.root / ".git"), self._root)
            )
            if at := one.changed_since(since):
                times[name] = at
        return times

    def is_passing(self, path: str) -> bool:
        """Return whether a path is a cache, or one of the goal's `outputs`."""
        return self._passing.match(path)

    def _passes(self, path: bytes) -> bool:
        return self.is_passing(printable_path(path))

    async def committed(self) -> Mapping[str, str] | None:
        """Return by path what identifies the content in the commit that was checked out at the start of the run.

        The form is that of `differences`. Without a repository there is nothing to lose that git does not have: None. If the
        commit cannot be read any more, the result is empty.
        """
        async with self._turn:
            await self._ready()
            if self._committed is None:
                self._committed = await committed_paths(
                    self.git, self._start.commit or ""
                )
            return self._committed

    async def ignored_names(self) -> tuple[str, ...]:
        """Return the ignored paths, sorted, in the form of `os.fsdecode`; an ignored folder ends with a slash."""
        async with self._turn:
            index = await self._ready()
            is_known = await self._look(index) is not None and self._ignored
            found = (
                self._ignored[1]
                if is_known and self._ignored
                else await index.ignored()
            )
        home = f"{os.path.relpath(self._home, self.workspace)}/"
        return tuple(
            sorted(
                name for name in map(os.fsdecode, found) if not home.startswith(name)
            )
        )

    async def restore(
        self, snapshot: Snapshot, paths: Sequence[str] = ()
    ) -> tuple[Change, ...]:
        """Restore the files of the workspace, or only these `paths`, from a snapshot; return what changed.

        Ignored files, the data of repositories and empty folders stay as they are. The state before is kept as a
        snapshot. Raise WorkspaceError naming the paths that could not be restored, after restoring all others.
        """
        before = await self.snapshot()
        changes = await self._differing(before, snapshot)
        wanted = set(paths) & changes if paths else changes
        async with self._turn:
            (await self._ready()).doubt(map(raw, changes))
            self._seen = None
            there, then = await self.entries(before), await self.entries(snapshot)
            gone = [
                path
                for path in wanted
                if path in there
                and path not in then
                and (paths or not there[path].stored)
            ]
            await asyncio.to_thread(self._remove, gone)
            tree = f"{snapshot.tree}:content"
            if not paths:
                await self.git.ask(
                    "read-tree", "--reset", "-u", tree, tree=self.workspace
                )
            elif back := [raw(path) + b"\0" for path in wanted if path in then]:
                arguments = (
                    "checkout",
                    tree,
                    "--pathspec-from-file=-",
                    "--pathspec-file-nul",
                )
                await self._with_new_index(
                    self.workspace, *arguments, stdin=b"".join(back)
                )
        after = await self.snapshot()
        if left := (set(paths) or changes) & await self._differing(after, snapshot):
            names = ", ".join(sorted(left)[:10])
            hint = "all other paths were restored; these were not stored or cannot be written"
            raise WorkspaceError(f"not restored: {names}", hint)
        return tuple(
            change
            for change in await self.all_changes(before, after)
            if change.kind != "repository"
        )

    async def _with_new_index(
        self, tree: Path, *arguments: str, stdin: bytes = b""
    ) -> None:
        with tempfile.TemporaryDirectory(prefix="tmp_", dir=self.folder) as scratch:
            await self.git.ask(
                *arguments, stdin=stdin, tree=tree, index=Path(scratch, "index")
            )

    def _remove(self, paths: list[str]) -> None:
        for path in map(raw, paths):
            place = os.path.join(self._root, path)
            if self._sorter.is_folder(os.path.dirname(path)) and os.path.lexists(place):
                os.unlink(place)

    async def _differing(self, old: Snapshot, new: Snapshot) -> set[str]:
        return {
            change.path
            for change in await self.all_changes(old, new)
            if change.kind != "repository"
        }

    async def _ready(self) -> Index:
        if self._index:
            return self._index
        if not self.workspace.is_dir():
            raise WorkspaceError(
                f"the workspace {self.workspace} does not exist any more"
            )
        await asyncio.to_thread(objects.make_store, self.folder)
        self._claim = self._claim or PathClaim(
            self.workspace, self.folder / "lock", self._run
        )
        # Left by a process that was killed: this object holds the lock.
        (self.folder / "index.lock").unlink(missing_ok=True)
        packs, _ = await both(objects.packs_well(self.git), self._begin())
        known = await self._take_over()
        index = Index(self.git, self._start, self._sorter, packs=packs, known=known)
        await index.settle(self._tracked)
        await self.git.run("gc", "--auto", "--quiet")
        self._index = index
        return index

    async def _begin(self) -> None:
        """Save the current ignore rules, unless the run's were saved before, and find what the user's repositories track."""
        self._parent = await parent_of(self.git)
        if self._tracked is None and not (self._kept and self._start.frozen):
            lines, repositories = await ignore_rules(self.git, self._parent, self._home)
            await asyncio.to_thread(self._start.write, lines, await head_of(self.git))
            self._tracked = await tracked_paths(
                self.git, [*repositories, *([self._parent] if self._parent else [])]
            )

    async def _take_over(self) -> Collection[bytes]:
        """Let a new store begin with what the user's repository knows; return the paths whose content it may have.

        Not later in a run: the agent can write that repository.
        """
        repository = self._parent or repository_at(self.workspace)
        is_new = (
            self._is_first
            and self._tracked is not None
            and not (self.folder / "index").exists()
        )
        self._is_first = False
        if (
            not is_new
            or repository is None
            or not await user_index.take_over(self.git, repository, self._large)
        ):
            return ()
        return self._tracked or ()

    async def verify(
        self, snapshot: Snapshot, paths: Collection[str] | None = None
    ) -> None:
        """Compare files with a snapshot if their content was taken over from the index of the user's repository.

        `paths` are all by default. To be called before the agent works. Raise WorkspaceError if the index was wrong.
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
        read = await self._hashed(unread)
        differing = {
            path for path, blob in read.items() if recorded.get(path, blob) != blob
        }
        if differing and (
            wrong := differing - await self._differing(snapshot, await self.snapshot())
        ):
            async with self._turn:
                (await self._ready()).doubt(map(raw, wrong))
                self._seen = None
            raise WorkspaceError(
                f"{some(sorted(wrong))}: the index of the repository names another content than the file has, "
                "although the file did not change",
                "git shows the difference after `touch` of the file; a new run reads the file itself: goal run",
            )
        await asyncio.to_thread(user_index.note_verified, self.folder, unread)

    async def _hashed(self, paths: Collection[bytes]) -> dict[str, str]:
        """Return the blobs that files and links would have now, by path."""
        present = (await asyncio.to_thread(self._sorter.sort, paths)).storable
        places = [(path, os.path.join(self._root, path)) for path in present]
        links = {
            path: object_id("blob", os.readlink(place))
            for path, place in places
            if os.path.islink(place)
        }
        files = [path for path in present if path not in links]
        stdin = b"".join(path + b"\n" for path in files)
        output = await self.git.ask(
            "hash-object",
            "--no-filters",
            "--stdin-paths",
            stdin=stdin,
            tree=self.workspace,
        )
        hashes = links | dict(zip(files, output.decode().split(), strict=True))
        return {printable_path(path): blob for path, blob in hashes.items()}

    async def _take(self, index: Index) -> Snapshot:
        content, unstored = await self._read(index)
        states = dict[str, str]()
        for one in await asyncio.to_thread(self._repositories, index.folders):
            name = os.path.relpath(one.root / ".git", self.workspace)
            states[printable_path(os.fsencode(name))] = await self._states.state(one)
        return await asyncio.to_thread(self._keep, content, unstored, states)

    async def _read(self, index: Index) -> tuple[str, dict[bytes, Entry]]:
        """Return the tree and the entries that are not in it. Git is asked only if a look shows a change, or is not possible."""
        # The look comes before git reads: what changes in between differs at the next look.
        look, before = await self._look(index), self._seen
        if look and before:
            with contextlib.suppress(OSError):
                if before.is_same(look, self._root):
                    self._seen = look
                    return self._content
        self._seen = None
        self._content = await index.update()
        self._seen = look
        return self._content

    async def _look(self, index: Index) -> Look | None:
        """Look at the workspace; git says what is ignored if names have changed. Return None in a large workspace."""
        if index.is_large or index.misses_tracked:
            self._ignored = None
            return None
        if self._ignored:
            before, ignored = self._ignored
            look = (
                await asyncio.to_thread(look_at, self._root, ignored)
                if before
                else None
            )
            if look is None or (before and before.names == look.names):
                return look
        ignored = await index.ignored()
        look = await asyncio.to_thread(look_at, self._root, ignored)
        # A path that appeared between the two is in the names, but may be missing in the list.
        is_listed = look is None or await index.ignored() == ignored
        self._ignored = (look, ignored) if is_listed else None
        return look

    def _repositories(self, folders: Collection[bytes]) -> list[Repository]:
        """Return the repositories in `folders`, and the one around the workspace."""
        places = [
            folder
            for folder in folders
            if os.path.lexists(os.path.join(self._root, folder, b".git"))
        ]
        real = (
            self.workspace / os.fsdecode(folder)
            for folder in places
            if self._sorter.is_folder(folder)
        )
        found = [repository for repository in map(repository_at, real) if repository]
        return found + ([self._parent] if self._parent else [])

    def _keep(
        self, content: str, unstored: dict[bytes, Entry], states: dict[str, str]
    ) -> Snapshot:
        blobs = (
            {"unstored": objects.write_blob(self.folder, manifest(unstored))}
            if unstored
            else {}
        )
        tree = objects.write_tree(self.folder, trees={"content": content}, blobs=blobs)
        state = (
            objects.write_blob(self.folder, json.dumps(states, sort_keys=True).encode())
            if states
            else ""
        )
        if self._last is None or (tree, state) != (
            self._last.tree,
            self._last.repository,
        ):
            self._last = objects.keep_snapshot(self.folder, tree, state)
        return self._last


async def revision_snapshot(
    store: SnapshotStore, revision: str, environ: Mapping[str, str]
) -> Snapshot:
    """Return the snapshot of a revision of the repository around the workspace; the store has taken one before.

    It has the committed bytes, without submodules. Raise UsageError without a repository or such a revision, and
    WorkspaceError if the commit is damaged or incomplete.
    """
    found = enclosing(store.workspace)
    if found is None:
        raise UsageError(
            f"{store.workspace} is in no git repository, so it has no revision {revision}"
        )
    git = Git(store.folder, store.workspace, environ)
    named = (
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{revision}^{{commit}}",
    )
    answer = await git.run(*named, repository=found.git_dir)
    commit = answer.output.decode().strip()
    if answer.code != 0 or len(commit) != 40:
        raise UsageError(
            f"{revision} is no commit of {found.root}",
            "git log --oneline lists the commits",
        )
    inside = os.path.relpath(store.workspace, found.root)
    try:
        content = await _copied(
            git,
            found.git_dir,
            commit,
            b"" if inside == "." else os.fsencode(f"{inside}/"),
        )
    except GitFailed as error:
        raise WorkspaceError(
            f"{revision} cannot be read from {found.root}: {error.message}",
            "git fsck checks the repository",
        ) from error
    tree = objects.write_tree(store.folder, trees={"content": content}, blobs={})
    return objects.keep_snapshot(store.folder, tree, "")


async def _copied(git: Git, repository: Path, commit: str, folder: bytes) -> str:
    """Copy a commit, or one folder of it, into the store, without filters; return the tree of its files.

    `index-pack` computes the ids of the objects again, so that one that was replaced in the repository is not found.
    """
    ask = partial(git.ask, repository=repository)
    below = ("--", folder) if folder else ()
    names = await ask(
        "rev-list", "--objects", "--no-object-names", "--no-walk", commit, *below
    )
    await git.ask(
        "index-pack",
        "--stdin",
        stdin=await ask("pack-objects", "--stdout", "-q", stdin=names),
    )
    listed = await git.ask("ls-tree", "-r", "-z", "--full-tree", commit, *below[1:])
    rows = [row for row in listed.split(b"\0")[:-1] if not row.startswith(b"160000")]
    with tempfile.TemporaryDirectory() as scratch:
        index = Path(scratch) / "index"
        entries = (row.replace(b"\t" + folder, b"\t", 1) + b"\0" for row in rows)
        await git.ask(
            "update-index", "-z", "--index-info", stdin=b"".join(entries), index=index
        )
        return (await git.ask("write-tree", index=index)).decode().strip()
