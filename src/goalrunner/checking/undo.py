"""Undoes an in-place check from its journal: in the runner, in its watchdog, or in a later command."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.checking import folders, git_files
from goalrunner.checking.journal import Move, OpenJournal, checks_folder, sync_folder
from goalrunner.checking.moves import move_back, remove_aside
from goalrunner.core.base import Snapshot
from goalrunner.core.errors import GoalError
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
    new = await work.new_folders()
    await work.reset()
    await asyncio.to_thread(work.finish, new)
    return work.result


class _Undo:
    def __init__(self, opened: OpenJournal, store: SnapshotStore) -> None:
        self._opened = opened
        self._journal = opened.journal
        self._store = store
        self._stash = opened.folder / "outputs"
        self._keep = checks_folder(Path(self._journal.home)) / "kept" / self._journal.token
        self._changed: list[str] = []
        self._modes: list[str] = []
        """Files whose mode is unusual now and was not before the check."""
        self._lost: list[Move] = []
        self._is_reset = False
        self.result = Undone()

    @contextlib.contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """Record a failure of a step, and go on with the next one."""
        try:
            yield
        except GoalError as error:
            self.result.problems.append(f"{name}: {error.message}")
        except OSError as error:
            self.result.problems.append(
                f"{name}: {error.filename or ''} {error.strerror or error}".replace(":  ", ": ")
            )

    def put_back(self) -> None:
        """Put back live files and git files; files that are declared outputs are moved out of the way first."""
        journal = self._journal
        folders.make_accessible(journal.workspace, journal.folders)
        if not self._opened.is_done("outputs kept"):
            with self._step("outputs"):
                skip = self._own_folders() | set(journal.puts)
                paths = folders.written(journal.workspace, journal.outputs, journal.since, skip)
                folders.stash(journal.workspace, paths, self._stash)
                self._opened.set_done("outputs kept")
        for move in journal.moves:
            with self._step(move.path):
                if not move_back(self._opened, move):
                    self._lost.append(move)
        if not self._opened.is_done("git"):
            kept, problems = git_files.put_back(self._opened, self._keep)
            self.result.overwritten += kept
            self.result.problems += problems
            if not problems:
                self._opened.set_done("git")
        self.result.lost += git_files.lost(journal)

    async def new_folders(self) -> list[str]:
        """Return the folders that the check made, but for ignored ones; make all of them readable.

        Restore pipes and sockets, which no snapshot holds.
        """
        found: list[str] = []
        with self._step("folders"):
            if not self._opened.is_done("reset"):
                skip = await ignored_folders(self._store) | self._own_folders()
                now = await asyncio.to_thread(folders.look, self._journal.workspace, skip, enter=True)
                found = sorted(set(now.modes) - set(self._journal.folders), reverse=True)
                self._modes = sorted(now.files.keys() - self._journal.modes.keys())
                await asyncio.to_thread(self._remove_repositories, now.repositories)
                await asyncio.to_thread(self._restore_special, now.special)
        return found

    def _restore_special(self, now: dict[str, int]) -> None:
        restored = folders.restore_special(self._journal.workspace, self._journal.special, now)
        self.result.overwritten += [shown(os.fsencode(path)) for path in restored]

    def _remove_repositories(self, now: list[str]) -> None:
        """Move git folders that the check made out of the workspace: no snapshot holds them."""
        for folder in set(now) - set(self._journal.repositories):
            path = os.path.join(self._journal.workspace, folder, ".git")
            target = self._keep / os.path.relpath(path, "/")
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(OSError):  # on another file system, or kept already: it stays
                os.rename(path, target)
                self.result.overwritten.append(path)

    async def reset(self) -> None:
        """Reset what no rule ignores to the snapshot. The store keeps the state before."""
        snapshot = Snapshot(**self._journal.snapshot)
        with self._step("reset"):
            await self._name_lost(snapshot)
            if self._opened.is_done("reset"):
                return
            before = await self._store.snapshot()
            if before.tree != snapshot.tree:
                self.result.kept = before
                changes = await self._store.all_changes(before, snapshot)
                self._changed = [change.path for change in changes if change.kind != "repository"]
                self.result.overwritten += self._changed
                await self._store.restore(snapshot)
            if self._modes:
                held = await self._store.entries(snapshot)
                modes = {shown(os.fsencode(path)) for path in self._modes}.intersection(held)
                self.result.overwritten += sorted(modes.difference(self._changed))
                self._changed += modes
            self._is_reset = True

    async def _name_lost(self, snapshot: Snapshot) -> None:
        """Name the live paths that the check removed, but for files that the snapshot holds."""
        held = await self._store.entries(snapshot) if self._lost else {}
        for move in self._lost:
            if shown(os.fsencode(os.path.relpath(move.path, self._journal.workspace))) not in held:
                self.result.lost.append(f"{move.path} is lost: the check removed {os.path.dirname(move.aside)}")

    def finish(self, new: list[str]) -> None:
        """Restore folders, modes and outputs, and remove the journal unless something failed."""
        journal = self._journal
        if not self._opened.is_done("reset"):
            for path in new:
                with contextlib.suppress(OSError):  # ignored files are in it
                    os.rmdir(os.path.join(journal.workspace, path))
            with self._step("modes"):
                changed = [os.fsdecode(raw(path)) for path in self._changed]
                folders.restore_modes(journal.workspace, journal.folders, journal.modes, changed)
                if self._is_reset:
                    self._opened.set_done("reset")
        with self._step("outputs"):
            if self._opened.is_done("outputs kept") and self._opened.is_done("reset"):
                folders.unstash(journal.workspace, self._stash)
        self._clean_up()

    def _clean_up(self) -> None:
        journal = self._journal
        for folder in {os.path.dirname(move.path) for move in journal.moves}:
            sync_folder(folder)
        if self.result.problems:
            return
        for folder in journal.asides:
            if not remove_aside(folder):
                self.result.problems.append(f"live files are left in {folder}")
        if not self.result.problems:
            self._opened.remove()
            self._forget_old()

    def _forget_old(self) -> None:
        """Keep the git files of the newest undos only."""
        with contextlib.suppress(OSError):
            kept = sorted(self._keep.parent.iterdir(), key=lambda folder: folder.stat().st_mtime_ns)
            for folder in kept[:-_MOST_KEPT]:
                remove(folder)

    def _own_folders(self) -> set[str]:
        """Return the folders of this program in the workspace, relative to it."""
        places = {*map(os.path.dirname, self._journal.asides), *self._journal.asides, self._journal.home}
        workspace = self._journal.workspace
        return {os.path.relpath(place, workspace) for place in places if place.startswith(f"{workspace}/")}


async def ignored_folders(store: SnapshotStore) -> set[str]:
    """Return the folders that the rules of the run ignore as a whole, relative to the workspace."""
    return {os.fsdecode(raw(path)).rstrip("/") for path in await store.ignored() if path.endswith("/")}
