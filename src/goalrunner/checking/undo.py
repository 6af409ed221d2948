"""Undoes an in-place check from its journal: in the runner, in its watchdog, or in a later command."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.checking import folders, git_files
from goalrunner.checking.journal import Move, OpenJournal, checks_folder
from goalrunner.checking.moves import move_back, remove_aside
from goalrunner.core.base import Snapshot
from goalrunner.core.errors import GoalError
from goalrunner.records.run_folder import sync_folder
from goalrunner.snapshots.objects import raw, shown
from goalrunner.snapshots.restore import remove
from goalrunner.snapshots.store import SnapshotStore

_MOST_KEPT = 10
"""Folders with git files that undos have replaced."""


@dataclass
class Undone:
    """What an undo did."""

    overwritten: list[str] = field(default_factory=list)
    """Files that no rule ignores and that were reset, relative to the workspace, and git files, absolute."""
    kept: Snapshot | None = None
    """The state before the reset; None if there was nothing to reset."""
    problems: list[str] = field(default_factory=list)
    """What could not be undone this time, in words; the journal stays."""
    lost: list[str] = field(default_factory=list)
    """What the check removed and no undo can put back, in words."""


async def undo(opened: OpenJournal, store: SnapshotStore) -> Undone:
    """Undo a check whose processes have ended. The steps that fail are named; all others are done nevertheless.

    Interrupted at any point and repeated, it ends in the same state.
    """
    work = _Undo(opened, store)
    await asyncio.to_thread(work.put_back)
    snapshot = Snapshot(**opened.journal.snapshot)
    with work.step("reset"):
        await work.name_lost(snapshot)
        if not opened.is_done("reset"):
            await work.reset(snapshot)
            opened.set_done("reset")
    await asyncio.to_thread(work.finish)
    return work.result


class _Undo:
    def __init__(self, opened: OpenJournal, store: SnapshotStore) -> None:
        self._opened = opened
        self._journal = opened.journal
        self._store = store
        self._outputs = opened.folder / "outputs"
        self._keep = checks_folder(Path(self._journal.home)) / "kept" / self._journal.token
        self._lost: list[Move] = []
        self.result = Undone()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Record a failure of a step, and go on with the next one."""
        try:
            yield
        except GoalError as error:
            self.result.problems.append(f"{name}: {error.message}")
        except OSError as error:
            where = f"{error.filename} " if error.filename else ""
            self.result.problems.append(f"{name}: {where}{error.strerror or error}")

    def put_back(self) -> None:
        """Put back live files and git files; files that are declared outputs are moved out of the way first."""
        journal = self._journal
        folders.make_accessible(journal.workspace, journal.folders)
        if not self._opened.is_done("outputs kept"):
            with self.step("outputs"):
                skip = self._own_folders() | set(journal.puts)
                paths = folders.written(journal.workspace, journal.outputs, journal.since, skip)
                folders.keep_outputs(journal.workspace, paths, self._outputs)
                self._opened.set_done("outputs kept")
        for move in journal.moves:
            with self.step(move.path):
                if not move_back(self._opened, move):
                    self._lost.append(move)
        if not self._opened.is_done("git"):
            git = git_files.PutBack(self._opened, self._keep)
            git.run()
            self.result.overwritten += git.kept
            self.result.problems += git.problems
            if not git.problems:
                self._opened.set_done("git")
        self.result.lost += git_files.lost(journal)

    async def reset(self, snapshot: Snapshot) -> None:
        """Reset what no rule ignores to the snapshot, modes and folders included. The store keeps the state before."""
        journal, store = self._journal, self._store
        skip = await ignored_folders(store) | self._own_folders()
        now = await asyncio.to_thread(folders.look, journal.workspace, skip, enter=True)
        await asyncio.to_thread(self._remove_new, now)
        before = await store.snapshot()
        changed: set[str] = set()
        if before.tree != snapshot.tree:
            self.result.kept = before
            changes = await store.all_changes(before, snapshot)
            changed = {change.path for change in changes if change.kind != "repository"}
            await store.restore(snapshot)
        if unusual := now.files.keys() - journal.modes.keys():
            changed |= (await store.entries(snapshot)).keys() & {shown(os.fsencode(path)) for path in unusual}
        self.result.overwritten += sorted(changed)
        for path in sorted(now.modes.keys() - journal.folders.keys(), reverse=True):
            with contextlib.suppress(OSError):  # ignored files are in it
                os.rmdir(os.path.join(journal.workspace, path))
        paths = [os.fsdecode(raw(path)) for path in changed]
        await asyncio.to_thread(folders.restore_modes, journal.workspace, journal.folders, journal.modes, paths)

    def _remove_new(self, now: folders.Folders) -> None:
        """Remove what the check made and no snapshot contains: git folders, which are kept, pipes and sockets."""
        workspace = self._journal.workspace
        for folder in set(now.repositories) - set(self._journal.repositories):
            path = os.path.join(workspace, folder, ".git")
            target = self._keep / os.path.relpath(path, "/")
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # on another file system, or kept already: it stays
                os.rename(path, target)
                self.result.overwritten.append(path)
        for path in sorted(set(now.special) - set(self._journal.special)):
            with self.step(path):
                os.unlink(os.path.join(workspace, path))
                self.result.overwritten.append(shown(os.fsencode(path)))

    async def name_lost(self, snapshot: Snapshot) -> None:
        """Name the live paths that the check removed, but for files that the snapshot contains."""
        for move in self._lost:
            path = shown(os.fsencode(os.path.relpath(move.path, self._journal.workspace)))
            if path not in await self._store.entries(snapshot):
                self.result.lost.append(f"{move.path} is lost: the check removed {os.path.dirname(move.aside)}")

    def finish(self) -> None:
        """Put outputs back, and remove the journal unless something failed."""
        journal, problems = self._journal, self.result.problems
        with self.step("outputs"):
            if self._opened.is_done("outputs kept") and self._opened.is_done("reset"):
                folders.put_outputs_back(journal.workspace, self._outputs)
        for folder in {os.path.dirname(move.path) for move in journal.moves}:
            with contextlib.suppress(OSError):  # not every file system can
                sync_folder(Path(folder))
        if not problems:
            problems += [f"live files are left in {folder}" for folder in journal.asides if not remove_aside(folder)]
        if not problems:
            self._opened.remove()
            with contextlib.suppress(OSError):
                kept = sorted(self._keep.parent.iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
                for old in kept[:-_MOST_KEPT]:
                    remove(old)

    def _own_folders(self) -> set[str]:
        """Return the folders of this program in the workspace, relative to it."""
        places = {*map(os.path.dirname, self._journal.asides), *self._journal.asides, self._journal.home}
        workspace = self._journal.workspace
        return {os.path.relpath(place, workspace) for place in places if place.startswith(f"{workspace}/")}


async def ignored_folders(store: SnapshotStore) -> set[str]:
    """Return the folders that the rules of the run ignore as a whole, relative to the workspace."""
    return {os.fsdecode(raw(path)).rstrip("/") for path in await store.ignored() if path.endswith("/")}
