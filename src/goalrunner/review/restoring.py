"""The workspace of a run as one of its snapshots was. Owns the way there, and that there is a way back."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.checking.watchdog import replay
from goalrunner.errors import UsageError, WorkspaceError
from goalrunner.model.snapshot import Change, Snapshot
from goalrunner.review.stores import KeptStore
from goalrunner.workspace.shrinking import put_aside


@dataclass(frozen=True)
class Restored:
    """What was changed, and the snapshot of the state before."""

    changes: tuple[Change, ...]
    before: Snapshot


class Restoration:
    """One restoration: plan it, then perform it. From the plan on no run may work in the workspace, until `close`."""

    def __init__(self, workspace: Path, home: Path, environ: Mapping[str, str], start: Path | None = None) -> None:
        """`start` is the folder in which the run kept its ignore rules: what an agent hid later is seen all the same.

        Raises WorkspaceError where there is no workspace, or no store.
        """
        if not workspace.is_dir():
            raise WorkspaceError(f"the workspace {workspace} is gone", f"mkdir -p {workspace}, then restore into it")
        replay(workspace, home)
        self._kept = KeptStore(workspace, home, environ, start=start)

    async def find(self, beginning: str) -> Snapshot:
        """The snapshot whose id begins so. Raises UsageError for none or several."""
        return await self._kept.find(beginning)

    async def plan(self, target: Snapshot, paths: Sequence[str] = ()) -> tuple[Change, ...]:
        """Return what would be changed, of these paths or of all.

        Raise WorkspaceError if a run works there, or the snapshot is no longer kept.
        """
        now = await self._kept.store.snapshot()  # first: it claims the workspace
        await self._kept.require(target)
        there = {*await self._kept.store.entries(now), *await self._kept.store.entries(target)} if paths else set()
        if unknown := [path for path in paths if path not in there]:
            raise UsageError(
                f"no file {unknown[0]} in this snapshot or in the workspace", "see goal diff for the paths"
            )
        changes = _files(await self._kept.store.all_changes(now, target))
        return tuple(change for change in changes if not paths or change.path in paths)

    async def perform(self, target: Snapshot, paths: Sequence[str] = ()) -> Restored:
        """Do it. Raises WorkspaceError naming what could not be restored, and the snapshot of the state before."""
        before = await self._kept.store.snapshot()
        with contextlib.suppress(OSError):  # without it a later `goal prune` may drop it; the restoration is wanted now
            put_aside(self._kept.store.folder, before.id)
        try:
            changes = await self._kept.store.restore(target, paths)
        except WorkspaceError as error:
            kept = f"the state before is kept as snapshot {before.id[:12]}"
            raise WorkspaceError(error.message, f"{error.hint}\n{kept}" if error.hint else kept) from error
        return Restored(_files(changes), before)

    def close(self) -> None:
        """Let runs work there again."""
        self._kept.store.close()


def _files(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """HEAD, refs and index of the user's repositories are never written."""
    return tuple(change for change in changes if change.kind != "repository")
