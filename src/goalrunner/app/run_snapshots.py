"""The snapshots of finished runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from goalrunner.app.previous_run import LoadedRun
from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.core.observation import Change, Snapshot
from goalrunner.core.snapshot_history import SnapshotHistory
from goalrunner.snapshots.git import Git
from goalrunner.snapshots.ignore_rules import Start
from goalrunner.snapshots.objects import find_snapshot, keeps
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.snapshots.store_folder import put_aside


class KeptStore:
    """The snapshots of one workspace, and restoring one of them."""

    def __init__(
        self,
        workspace: Path,
        home: Path,
        environ: Mapping[str, str],
        outputs: Sequence[str] = (),
        start: Path | None = None,
    ) -> None:
        """Open the store, with the ignore rules that the run recorded in `start`.

        Raise WorkspaceError if there are no snapshots.
        """
        # A run that was killed early may not have recorded them.
        has_rules = start is not None and Start(start).frozen
        self.store = SnapshotStore(
            workspace,
            home,
            outputs=outputs,
            start=start if has_rules else None,
            environ=environ,
        )
        # Opening the store does not make its folder.
        if not self.store.folder.is_dir():
            raise WorkspaceError(
                f"the snapshots of {workspace} are gone: there is no "
                f"{self.store.folder}",
                "use the GOAL_HOME of the run and the path that the workspace had",
            )
        self.git = Git(self.store.folder, self.store.workspace, environ)

    async def require(self, *snapshots: Snapshot) -> None:
        """Raise WorkspaceError if one is no longer stored."""
        for snapshot in snapshots:
            if not await keeps(self.git, snapshot):
                raise WorkspaceError(
                    f"snapshot {snapshot.id[:12]} is no longer kept in "
                    f"{self.store.folder}"
                )

    async def find(self, beginning: str) -> Snapshot:
        """Return the only snapshot whose id begins so. Raise UsageError."""
        return await find_snapshot(self.git, beginning)

    async def plan(
        self, target: Snapshot, paths: Sequence[str] = ()
    ) -> tuple[Change, ...]:
        """Return what would be changed, in these paths or in all.

        No run can use the workspace until the store is closed.
        """
        workspace = self.store.workspace
        if not workspace.is_dir():
            raise WorkspaceError(
                f"the workspace {workspace} is gone",
                f"mkdir -p {workspace}, then restore into it",
            )
        # It comes first, because it claims the workspace.
        now = await self.store.snapshot()
        await self.require(target)
        if not paths:
            return _files(await self.store.all_changes(now, target))
        existing = {*await self.store.entries(now), *await self.store.entries(target)}
        for path in paths:
            if path not in existing:
                raise UsageError(
                    f"no file {path} in this snapshot or in the workspace",
                    "see goal diff for the paths",
                )
        changes = _files(await self.store.all_changes(now, target))
        return tuple(change for change in changes if change.path in paths)

    async def perform(
        self, target: Snapshot, paths: Sequence[str] = ()
    ) -> tuple[tuple[Change, ...], Snapshot]:
        """Restore; return what was changed, and a snapshot of the state before.

        An error names that snapshot as well.
        """
        before = await self.store.snapshot()
        # If this fails, a later `goal prune` may remove the snapshot.
        with contextlib.suppress(OSError):
            put_aside(self.store.folder, before.id)
        try:
            return _files(await self.store.restore(target, paths)), before
        except WorkspaceError as error:
            remedy = f"the state before is kept as snapshot {before.id[:12]}"
            hint = f"{error.hint}\n{remedy}" if error.hint else remedy
            raise WorkspaceError(error.message, hint) from error


@dataclass(frozen=True)
class RunSnapshots:
    """The snapshots of a run by round."""

    run_id: str
    workspace: str
    history: SnapshotHistory

    @classmethod
    def of(cls, loaded: LoadedRun) -> Self:
        """Return those of a run whose log was read."""
        return cls(
            loaded.state.goal.run_id, loaded.started.workspace, loaded.evidence.history
        )

    def end(self, number: int | None) -> tuple[int, Snapshot]:
        """Return a round, by default the newest, and the snapshot at its end.

        Raise UsageError if there is none.
        """
        ends = self.history.ends
        if not ends:
            raise UsageError(
                f"run {self.run_id} took no snapshots",
                'the agent has not run, or deliverable = "response"; see goal show '
                f"{self.run_id}",
            )
        newest = max(ends)
        if number is None:
            return newest, ends[newest]
        if number in ends:
            return number, ends[number]
        what = "has not ended" if number in self.history.starts else "does not exist"
        raise UsageError(
            f"round {number} of run {self.run_id} {what}",
            f"the last ended round is {newest}",
        )

    def both(self, number: int | None) -> tuple[Snapshot, Snapshot]:
        """Return the snapshots before and after a round; None is the whole run.

        Raise UsageError if there is no such round.
        """
        starts, ends = self.history.starts, self.history.ends
        # Without an ended round, the whole run has changed nothing.
        if number is None and max(ends, default=0) > 0:
            # Round 0 ends when the baseline was taken; a run without one begins with
            # round 1.
            first = ends.get(0) or starts[min(starts)]
            return first, ends[max(ends)]
        if number == 0:
            raise UsageError(
                "round 0 is the start of the run, which changed nothing",
                "rounds are counted from 1",
            )
        number, end = self.end(number)
        if number not in starts:
            raise UsageError(
                f"no round of run {self.run_id} has ended yet",
                "goal status shows its state",
            )
        return starts[number], end


@dataclass(frozen=True)
class RoundPatch:
    """The changes of a round, or of the whole run if `round` is None.

    In `text`, bytes that are not UTF-8 are surrogates.
    """

    round: int | None
    changes: tuple[Change, ...]
    text: str


async def round_patch(
    snapshots: RunSnapshots,
    home: Path,
    environ: Mapping[str, str],
    number: int | None = None,
) -> RoundPatch:
    """Return the patch of a round, or of the whole run.

    Raise UsageError for no such round, and WorkspaceError for no store.
    """
    start, end = snapshots.both(number)
    run_store = KeptStore(Path(snapshots.workspace), home, environ)
    await run_store.require(start, end)
    [text] = await run_store.store.patches([(start, end)])
    return RoundPatch(number, await run_store.store.changes(start, end), text)


def _files(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return the changes of files.

    HEAD, refs and index of the user's repositories are never written.
    """
    return tuple(change for change in changes if change.kind != "repository")
