"""The check environment without mounts: the live workspace itself is changed for a check, and the changes undone after it."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from goalrunner.checking import folders, git_files
from goalrunner.checking.environment import Kind, Layer, no_space, to_its_end
from goalrunner.checking.journal import Journal, OpenJournal, checks_folder, create, found
from goalrunner.checking.moves import moves_of, put_file, set_aside
from goalrunner.checking.undo import Undone, ignored_folders, undo
from goalrunner.checking.watchdog import Watchdog
from goalrunner.core.base import Snapshot
from goalrunner.core.errors import EnvironmentFailed, GoalError
from goalrunner.core.process_ports import Launcher
from goalrunner.snapshots.objects import raw
from goalrunner.snapshots.repositories import enclosing, repository_at
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.system.orphans import end_orphans
from goalrunner.system.process_table import ProcessTag

_NAMED = 5


class InPlace:
    """Sets up check environments in the live workspace of a snapshot store. One can be open at a time.

    `home` is GOAL_HOME. `outputs` are patterns of files that checks may write: these stay as a check leaves them.
    `guard` is the token of the watchdog of the run's launcher. `start` is the folder of the run's ignore rules, if the
    store was made with one.
    """

    def __init__(
        self,
        store: SnapshotStore,
        home: Path,
        *,
        outputs: Sequence[str] = (),
        guard: str = "",
        start: Path | None = None,
    ) -> None:
        self.store = store
        self.home = home.resolve()
        self.outputs = tuple(outputs)
        self.guard = guard
        self.start = (start or store.folder / "start").resolve()
        self.undone = Undone()
        """What the undo of the last check reset."""
        self._failed: list[OpenJournal] = []

    @property
    def kind(self) -> Kind:
        """Which kind it is."""
        return "in-place"

    @asynccontextmanager
    async def open(self, layers: Sequence[Layer]) -> AsyncIterator[InPlaceCheck]:
        """Change the workspace for one check run, and undo it at the end. Raise EnvironmentFailed."""
        check = InPlaceCheck(self, layers)
        try:
            await to_its_end(check.set_up())
            yield check
        finally:
            await to_its_end(self._close(check))

    async def _close(self, check: InPlaceCheck) -> None:
        if check.opened is None:
            return
        self.undone = await check.undo()
        if self.undone.problems:
            # The lock is held until this process ends, so that no other one repeats the undo while the run goes on.
            self._failed.append(check.opened)
            raise EnvironmentFailed(
                f"the workspace is not as it was before the check: {_some(self.undone.problems + self.undone.lost)}",
                f"the missing content is in {check.opened.folder}; the next command tries again to restore it",
                permanent=True,
            )
        check.opened.close()
        if self.undone.lost:
            raise EnvironmentFailed(
                f"the check removed files that cannot be restored: {_some(self.undone.lost)}",
                "everything else was restored; restore these files from a backup, and change the validator so that it keeps them",
                permanent=True,
            )


class InPlaceCheck:
    """A check environment in the live workspace."""

    def __init__(self, parent: InPlace, layers: Sequence[Layer]) -> None:
        self._parent = parent
        self._layers = layers
        self._store = parent.store
        self._token = secrets.token_hex(8)
        self._watchdog: Watchdog | None = None
        self._snapshot: Snapshot | None = None
        self.opened: OpenJournal | None = None

    @property
    def path(self) -> Path:
        """The workspace."""
        return self._store.workspace

    def launcher(self, inner: Launcher) -> Launcher:
        """Return `inner`."""
        return inner

    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables for commands here.

        They mark the processes of the check, which are found and ended with it even if they leave their session.
        """
        return ProcessTag(self._token).environment(env)

    async def collect(self, patterns: Sequence[str]) -> tuple[str, ...]:
        """Return the files that match a pattern and that the check has written; they stay when it ends."""
        if self.opened is None:
            return ()
        journal = self.opened.journal
        journal.outputs += [pattern for pattern in patterns if pattern not in journal.outputs]
        skip = [os.path.relpath(journal.home, self.path), *journal.puts]
        return tuple(await asyncio.to_thread(folders.written, journal.workspace, patterns, journal.since, skip))

    async def changed(self) -> tuple[str, ...]:
        """Return the files of the snapshot that the check wrote with another content."""
        if self.opened is None or self._snapshot is None:
            return ()
        changes = await self._store.changes(self._snapshot, await self._store.snapshot())
        put = {path for layer in self._layers for path in (*layer.put, *layer.hide)}
        return tuple(
            item.path for item in changes if item.kind == "modified" and os.fsdecode(raw(item.path)) not in put
        )

    def full(self) -> str:
        """Return why nothing more can be written in the workspace; empty if something can."""
        return no_space(self.path, free_bytes=1, free_inodes=1)

    async def set_up(self) -> None:
        """Write the journal, start the watchdog, then change the workspace. Raise EnvironmentFailed."""
        for folder, journal in await asyncio.to_thread(found, self._parent.home):
            if journal.workspace == str(self.path):  # its undo would reset newer work
                raise EnvironmentFailed(
                    f"an earlier check in {self.path} is not undone; what it moved away is in {folder}",
                    f"put back what you need from there, then remove it: rm -r {folder}",
                    permanent=True,
                )
        try:
            self._snapshot = snapshot = await self._store.snapshot()
            ignored = await ignored_folders(self._store)
            await asyncio.to_thread(self._change, snapshot, ignored)
        except EnvironmentFailed:
            raise
        except GoalError as error:
            raise EnvironmentFailed(error.message, error.hint) from error
        except OSError as error:
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            raise EnvironmentFailed(f"the check cannot be set up in {self.path}: {what}") from error

    def _change(self, snapshot: Snapshot, ignored: set[str]) -> None:
        folder = checks_folder(self._parent.home) / self._token
        folder.mkdir(mode=0o700, parents=True)
        try:
            self.opened = self._journal(folder, snapshot, ignored)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # nothing was changed yet
            raise
        self._watchdog = Watchdog(self.opened)
        set_aside(self.opened.journal.moves)
        for layer in self._layers:
            for path, file in sorted(layer.put.items()):
                put_file(layer.root, path, file)

    def _journal(self, folder: Path, snapshot: Snapshot, ignored: set[str]) -> OpenJournal:
        root, parent = str(self.path), self._parent
        seen = folders.look(root, {*ignored, os.path.relpath(parent.home, root)})
        inside = (repository_at(self.path / path) for path in seen.repositories)
        places = git_files.places_of([found for found in (*inside, enclosing(self.path)) if found], self.path)
        files, contents, whole = git_files.record(places)
        journal = Journal(
            token=self._token,
            guard=parent.guard,
            pid=os.getpid(),
            workspace=root,
            home=str(parent.home),
            start=str(parent.start),
            snapshot=snapshot.model_dump(),
            outputs=list(parent.outputs),
            puts=[os.path.relpath(layer.root.resolve() / path, root) for layer in self._layers for path in layer.put],
            since=folder.stat().st_ctime_ns,
            moves=moves_of(self._layers, folder, self._token),
            folders=seen.modes,
            modes=seen.files,
            special=seen.special,
            repositories=seen.repositories,
            git_places=places,
            git_files=files,
            git_whole=whole,
        )
        return create(folder, journal, contents)

    async def undo(self) -> Undone:
        """End the processes of the check, and undo its changes."""
        assert self.opened is not None
        await asyncio.to_thread(end_orphans, self._token, ())
        undone = await undo(self.opened, self._store)
        if self._watchdog is not None:
            await asyncio.to_thread(self._watchdog.close)
        return undone


def _some(lines: Sequence[str]) -> str:
    return "; ".join(lines[:_NAMED]) + (f"; and {len(lines) - _NAMED} more" if len(lines) > _NAMED else "")
