"""The check environment without mounts: the workspace itself.

It is changed for a check, and the changes are undone after it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
import stat
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from goalrunner.checking.environment import (
    EnvironmentFailed,
    Kind,
    Layer,
    OpenEnvironment,
    environment_errors,
    is_below,
    lstat,
    put_file,
    to_its_end,
)
from goalrunner.checking.git_files import NO_HOOKS, without_git
from goalrunner.checking.journal import (
    HIDDEN,
    Journal,
    Move,
    checks_folder,
    journals_of,
    lock,
    modes_of,
)
from goalrunner.checking.made_files import MadeFiles
from goalrunner.checking.setup import Setup, activated, record_in_place
from goalrunner.checking.undo import Undo, UndoWatchdog, undo
from goalrunner.core.observation import Change, Snapshot
from goalrunner.records.files import write_whole
from goalrunner.snapshots.paths import raw
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.launch_tags import tagged
from goalrunner.system.watchdog import end_orphans


class InPlace:
    """Sets up check environments in the live workspace of a snapshot store.

    One can be open at a time. `home` is GOAL_HOME. `start` is the folder of the run's
    ignore rules, if the store was made with one. `outputs` are patterns of files that
    checks may rewrite. `setup` installs into the workspace itself.
    """

    kind: Kind = "in-place"

    def __init__(
        self,
        store: SnapshotStore,
        home: Path,
        *,
        start: Path | None = None,
        outputs: Sequence[str] = (),
        setup: Setup | None = None,
    ) -> None:
        self.store = store
        self.home = home.resolve()
        self.start = (start or store.folder / "start").resolve()
        self.outputs = tuple(outputs)
        self.setup = setup
        self.made = MadeFiles(store, self.start / "made.json")

    @asynccontextmanager
    async def open(self, layers: Sequence[Layer]) -> AsyncIterator[InPlaceCheck]:
        """Change the workspace for one check run, and undo it at the end.

        Raise EnvironmentFailed.
        """
        if self.setup is not None:
            await self._install(self.setup, layers)
        async with self._opened(layers) as check:
            yield check

    @asynccontextmanager
    async def _opened(
        self,
        layers: Sequence[Layer],
        *,
        installs: bool = False,
    ) -> AsyncIterator[InPlaceCheck]:
        check = InPlaceCheck(self, layers)
        try:
            await to_its_end(check.set_up())
            yield check
        finally:
            await to_its_end(self._close(check, installs=installs))

    async def _install(self, setup: Setup, layers: Sequence[Layer]) -> None:
        """Run `setup` unless it has run for these inputs.

        What it installs stays in the workspace.
        """
        workspace = self.store.workspace
        record = record_in_place(self.store.folder, self.home)
        inputs = await setup.inputs(layers[0] if layers else Layer(workspace))
        if record.exists() and record.read_text() == inputs.key:
            return
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Even if it fails, ignored files may exist from now on.
        write_whole(record, b"")
        async with self._opened(layers, installs=True) as check:
            await setup.run(check, workspace)
        write_whole(record, inputs.key.encode())

    async def _close(self, check: InPlaceCheck, *, installs: bool) -> None:
        if check.journal is None:
            return
        undone = await check.undo()
        if undone.problems:
            raise EnvironmentFailed(
                "the workspace is not as it was before the check: "
                + "; ".join(undone.problems),
                f"what was set aside is in {check.journal.folder}; "
                "the next command tries again to restore it",
                permanent=True,
            )
        if undone.lost:
            raise EnvironmentFailed(
                f"the check removed what was set aside: {'; '.join(undone.lost)}",
                "what git does not ignore was restored; "
                "change the validator so that it keeps GOAL_HOME",
                permanent=True,
            )
        assert check.snapshot is not None
        with environment_errors("files of the check cannot be noted"):
            await self.made.note(
                check.snapshot,
                check.ignored,
                check.journal.modes,
                reused=installs,
            )


class InPlaceCheck(OpenEnvironment):
    """A check environment in the live workspace.

    Git folders are not changed; git runs no hooks that the agent changed.
    """

    def __init__(self, parent: InPlace, layers: Sequence[Layer]) -> None:
        self._parent = parent
        self._store = parent.store
        self.path = self.room = parent.store.workspace
        self._layers = without_git(layers, self.path)
        # Their layers differ only if the agent changed settings or hooks of git.
        self._has_changed_git = self._layers != tuple(layers)
        self._folder = checks_folder(parent.home) / secrets.token_hex(8)
        self._handle = -1
        self._watchdog: UndoWatchdog | None = None
        self.snapshot: Snapshot | None = None
        """The workspace before the check."""
        self.ignored: tuple[str, ...] = ()
        """What git ignored before the check."""
        self.journal: Journal | None = None
        """None as long as nothing was changed."""

    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables for commands in this environment.

        They mark the processes of the check, which are ended with it even if they leave
        their session.
        """
        if self._parent.setup is not None:
            env = activated(env, self.path, self.path)
        if self._has_changed_git:
            env = {**env, **NO_HOOKS}
        return tagged(env, self._folder.name)

    async def collect(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """Return nothing: outputs are in the workspace already."""
        return ()

    async def changed(self) -> tuple[str, ...]:
        """Return the files of the snapshot that the check wrote with other content."""
        assert self.journal is not None
        # A file of a layer differs from the snapshot before any check writes it.
        set_aside = {
            os.path.relpath(move.path, self.path) for move in self.journal.moves
        }
        paths: list[str] = []
        for change in await self._changes():
            is_of_layer = is_below(os.fsdecode(raw(change.path)), set_aside)
            if change.kind == "modified" and not is_of_layer:
                paths.append(change.path)
        return tuple(paths)

    async def wrote(self) -> tuple[str, ...]:
        """Return the files that differ from the snapshot or are new."""
        return tuple(
            change.path
            for change in await self._changes()
            if change.kind in ("added", "modified")
        )

    async def _changes(self) -> tuple[Change, ...]:
        assert self.snapshot is not None
        return await self._store.changes(self.snapshot, await self._store.snapshot())

    async def set_up(self) -> None:
        """Write the journal, start the watchdog, then change the workspace.

        Raise EnvironmentFailed.
        """
        earlier = await asyncio.to_thread(
            journals_of,
            self._parent.home,
            self._store.folder,
        )
        if earlier:
            # Undone now, it would reset newer work.
            folder = earlier[0].folder
            raise EnvironmentFailed(
                f"an earlier check in {self.path} is not undone; "
                f"what it moved away is in {folder}",
                f"put back what you need from there, then remove it: rm -r {folder}",
                permanent=True,
            )
        with environment_errors(f"the check cannot be set up in {self.path}"):
            self.snapshot = await self._store.snapshot()
            self.ignored = await self._store.ignored_names()
            made = await self._parent.made.unchanged(self.snapshot, self.ignored)
            await asyncio.to_thread(self._change, self.snapshot, made)

    def _change(self, snapshot: Snapshot, made: set[str]) -> None:
        """Change the workspace. `made` are paths that an earlier check made."""
        self._folder.mkdir(
            mode=0o700,
            parents=True,
        )
        try:
            journal = self._new_journal(snapshot, made)
            handle = lock(self._folder)
            # No other process knows the folder.
            assert handle is not None
            self._handle = handle
            # Durable before the first change.
            journal.write()
        except BaseException:
            # Nothing was changed yet.
            shutil.rmtree(self._folder, ignore_errors=True)
            if self._handle >= 0:
                os.close(self._handle)
            raise
        self.journal = journal
        self._watchdog = UndoWatchdog(self._folder, self._handle)
        _set_aside(journal.moves)
        for layer in self._layers:
            root = os.path.realpath(layer.root)
            for path, file in sorted(layer.put.items()):
                put_file(root, path, file)

    def _new_journal(self, snapshot: Snapshot, made: set[str]) -> Journal:
        root = str(self.path)
        home = self._parent.home
        put = {path for layer in self._layers for path in layer.put}
        # A file that the plan puts into a made folder is not moved with it.
        moved = {path for path in made if not _has_one_below(path, put)}
        layers = [*self._layers, Layer(self.path, hide=frozenset(moved))]
        return Journal(
            folder=str(self._folder),
            pid=os.getpid(),
            workspace=root,
            home=str(home),
            start=str(self._parent.start),
            snapshot=snapshot.model_dump(),
            moves=_moves_of(layers, self._folder),
            modes=modes_of(root, {*self.ignored, os.path.relpath(home, root)}),
            outputs=list(self._parent.outputs),
            made=sorted(moved),
            store=str(self._store.folder),
        )

    async def undo(self) -> Undo:
        """End the processes of the check, and undo its changes."""
        assert self.journal is not None
        await asyncio.to_thread(end_orphans, self._folder.name)
        undone = await undo(self.journal, self._store)
        self.release(keep_lock=bool(undone.problems))
        return undone

    def release(self, *, keep_lock: bool = False) -> None:
        """End the watchdog.

        After an undo that failed, the lock is held until this process ends, so that no
        other process repeats the undo during the run.
        """
        if self._watchdog is not None:
            self._watchdog.close()
        if not keep_lock:
            os.close(self._handle)


def _has_one_below(folder: str, paths: Collection[str]) -> bool:
    """Return whether one of the paths is this folder or lies below it."""
    return any(is_below(path, {folder}) for path in paths)


@dataclass(frozen=True)
class _Affected:
    """The uppermost path that changes for a path of a layer."""

    path: str
    root: str
    info: os.stat_result | None
    """None if it does not exist."""


def _moves_of(layers: Sequence[Layer], folder: Path) -> list[Move]:
    """Return what is renamed aside, or made, for these layers.

    No path is below another path. `folder` is where live files wait if it is on their
    file system. Raise EnvironmentFailed or OSError.
    """
    by_path: dict[str, _Affected] = {}
    for layer in layers:
        root = os.path.realpath(layer.root)
        for path in (*layer.hide, *layer.put):
            affected = _affected(root, path, put=path in layer.put)
            if affected is not None:
                by_path[affected.path] = affected
    # Most paths have few parents, and each look-up tries a rename.
    waiting_folder = cache(lambda parent, root: _waiting_folder(parent, root, folder))
    moves: list[Move] = []
    for number, (path, affected) in enumerate(sorted(by_path.items())):
        if not by_path.keys().isdisjoint(map(str, Path(path).parents)):
            # It is moved with the folder above it.
            continue
        parent, inode = affected.root, 0
        if affected.info is not None:
            parent, inode = os.path.dirname(path), affected.info.st_ino
        aside = os.path.join(waiting_folder(parent, affected.root), str(number))
        moves.append(Move(path, affected.root, aside, inode))
    return moves


def _affected(
    root: str,
    path: str,
    *,
    put: bool,
) -> _Affected | None:
    """Return the uppermost path that changes; None if nothing does."""
    parts = path.split("/")
    # Such a path could lead out of the root.
    if not {"", ".", ".."}.isdisjoint(parts):
        raise EnvironmentFailed(
            f"{path!r} cannot be replaced for a check: it is not a path below {root}"
        )
    place = root
    for part in parts[:-1]:
        place = os.path.join(place, part)
        info = lstat(place)
        if info is None or not stat.S_ISDIR(info.st_mode):
            # It is replaced by a folder, or what is to be hidden does not exist.
            return _Affected(place, root, info) if put else None
    place = os.path.join(place, parts[-1])
    info = lstat(place)
    return _Affected(place, root, info) if put or info else None


def _waiting_folder(
    parent: str,
    root: str,
    folder: Path,
) -> str:
    """Return a folder on the file system of `parent` in which live files wait.

    It lies in `folder`, below GOAL_HOME, or else as near to the root as possible.
    """
    token = folder.name
    # Snapshots leave out what is called `.git`, so that resetting the workspace to one
    # does not remove it.
    hidden = os.path.join(f"{HIDDEN}{token}", ".git")
    for top, name in ((str(folder), "live"), (root, hidden)):
        if _can_rename(top, parent, token):
            return os.path.join(top, name)
    return os.path.join(parent, hidden)


def _can_rename(
    source: str,
    target: str,
    token: str,
) -> bool:
    """Return whether files can be renamed from one folder to another one."""
    # Between subvolumes of one mount, the rename of a missing file gives no EXDEV; the
    # numbers of their devices differ.
    if os.stat(source).st_dev != os.stat(target).st_dev:
        return False
    # Two bind mounts of one disk have the same number; only a rename shows the
    # difference. It names a file that does not exist, so that it changes nothing.
    missing = f".none-{token}"
    try:
        os.rename(os.path.join(source, missing), os.path.join(target, missing))
    except OSError as error:
        return error.errno != errno.EXDEV
    return False


def _set_aside(moves: Sequence[Move]) -> None:
    """Rename the live paths aside. Raise EnvironmentFailed or OSError."""
    for move in moves:
        os.makedirs(
            os.path.dirname(move.aside),
            mode=0o700,
            exist_ok=True,
        )
        # The path does not exist, so only the folder is needed.
        if not move.inode:
            continue
        try:
            os.rename(move.path, move.aside)
        except OSError as error:
            reason = error.strerror or str(error)
            if error.errno == errno.EBUSY:
                reason = "it is a mount point"
            raise EnvironmentFailed(
                f"{move.path} cannot be set aside for the check: {reason}",
                "run where an overlay of the workspace can be mounted",
            ) from error
