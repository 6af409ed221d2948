"""The snapshots of a finished run: patches of its rounds, and restoring one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner.checking.watchdog import replay
from goalrunner.core import events
from goalrunner.core.base import Change, Snapshot
from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.core.events import Record
from goalrunner.snapshots.git import Git
from goalrunner.snapshots.ignore_rules import Start
from goalrunner.snapshots.objects import find_snapshot, keeps
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.snapshots.store_gc import put_aside


class KeptStore:
    """The snapshots of one workspace. The workspace is claimed when a snapshot is taken or restored."""

    def __init__(
        self,
        workspace: Path,
        home: Path,
        environ: Mapping[str, str],
        outputs: Sequence[str] = (),
        start: Path | None = None,
    ) -> None:
        """Open the store. `start` is the folder in which the run kept its ignore rules; without them, the present ones are used.

        Raise WorkspaceError if there are no snapshots, or git is missing.
        """
        kept = start if start is not None and Start(start).frozen else None
        self.store = SnapshotStore(workspace, home, outputs=outputs, start=kept, environ=environ)
        if not self.store.folder.is_dir():
            raise WorkspaceError(
                f"the snapshots of {workspace} are gone: there is no {self.store.folder}",
                "use the GOAL_HOME of the run and the path that the workspace had",
            )
        self._git = Git(self.store.folder, self.store.workspace, environ)

    async def require(self, *snapshots: Snapshot) -> None:
        """Raise WorkspaceError if one is no longer kept."""
        for snapshot in snapshots:
            if not await keeps(self._git, snapshot):
                raise WorkspaceError(f"snapshot {snapshot.id[:12]} is no longer kept in {self.store.folder}")

    async def find(self, beginning: str) -> Snapshot:
        """Return the snapshot whose id begins so. Raise UsageError for none or several."""
        return await find_snapshot(self._git, beginning)


@dataclass
class RunSnapshots:
    """The snapshots that a log names, by round: `starts` as each round found the workspace, `ends` as each left it.

    Round 0 is the start of the run.
    """

    run_id: str = ""
    workspace: str = ""
    starts: dict[int, Snapshot] = field(default_factory=dict)
    ends: dict[int, Snapshot] = field(default_factory=dict)

    def end(self, number: int | None) -> tuple[int, Snapshot]:
        """Return a round, by default the newest, and what it left. Raise UsageError if it left no snapshot."""
        if not self.ends:
            raise UsageError(
                f"run {self.run_id} took no snapshots", 'snapshots are taken only with deliverable = "workspace"'
            )
        known = max(self.ends)
        number = known if number is None else number
        if number not in self.ends:
            last = f"the last ended round is {known}" if known else "no round has ended yet"
            begun = f"round {number} of run {self.run_id} has not ended"
            raise UsageError(begun if number in self.starts else f"run {self.run_id} has no round {number}", last)
        return number, self.ends[number]

    def both(self, number: int | None) -> tuple[Snapshot, Snapshot]:
        """Return what a round found and what it left; None: the whole run, to the end of its newest round.

        Raise UsageError if there is no such round.
        """
        if number is None and max(self.ends, default=0) > 0:
            return self.ends.get(0) or self.starts[min(self.starts)], self.end(None)[1]
        if number == 0:
            raise UsageError("round 0 is the start of the run, which changed nothing", "rounds are counted from 1")
        number, end = self.end(number)
        if number not in self.starts:
            raise UsageError(f"no round of run {self.run_id} has ended yet", "goal status shows its state")
        return self.starts[number], end


def snapshots_of(records: Iterable[Record]) -> RunSnapshots:
    """Return the snapshots of a run by round."""
    found = RunSnapshots()
    now: Snapshot | None = None
    for record in records:
        match record.event:
            case events.GoalCreated(goal=goal):
                found.run_id = goal.run_id
            case events.RunStarted(workspace=workspace):
                found.workspace = workspace
            case events.SnapshotTaken(snapshot=snapshot, moment=moment):
                now = snapshot
                if moment == "start":
                    found.ends.setdefault(0, snapshot)
            case events.RoundStarted(round=number) if now is not None:
                found.starts[number] = now
            case events.RoundFinished(round=number, snapshot=Snapshot() as snapshot):
                now = found.ends[number] = snapshot
            case _:
                pass
    return found


@dataclass(frozen=True)
class RoundPatch:
    """What a round changed, as a unified patch; `round` None: what the whole run changed."""

    round: int | None
    changes: tuple[Change, ...]
    text: str


async def round_patch(
    snapshots: RunSnapshots, home: Path, environ: Mapping[str, str], number: int | None = None
) -> RoundPatch:
    """Return the patch of a round, or of the whole run. Raise UsageError for no such round, WorkspaceError for no store."""
    start, end = snapshots.both(number)
    kept = KeptStore(Path(snapshots.workspace), home, environ)
    await kept.require(start, end)
    return RoundPatch(number, await kept.store.all_changes(start, end), await kept.store.diff(start, end))


@dataclass(frozen=True)
class Restored:
    """What was changed, and the snapshot of the state before."""

    changes: tuple[Change, ...]
    before: Snapshot


class Restoration(KeptStore):
    """One restoration. From `plan` to `close`, no run may work in the workspace."""

    def __init__(self, workspace: Path, home: Path, environ: Mapping[str, str], start: Path | None = None) -> None:
        """`start` is the folder in which the run kept its ignore rules, so that files that an agent ignored later are seen.

        Raise WorkspaceError if there is no workspace or no store.
        """
        if not workspace.is_dir():
            raise WorkspaceError(f"the workspace {workspace} is gone", f"mkdir -p {workspace}, then restore into it")
        replay(workspace, home)
        super().__init__(workspace, home, environ, start=start)

    async def plan(self, target: Snapshot, paths: Sequence[str] = ()) -> tuple[Change, ...]:
        """Return what would be changed, of these paths or of all.

        Raise WorkspaceError if a run works there, or the snapshot is no longer kept.
        """
        now = await self.store.snapshot()  # first: it claims the workspace
        await self.require(target)
        known = {*await self.store.entries(now), *await self.store.entries(target)} if paths else set()
        if unknown := [path for path in paths if path not in known]:
            raise UsageError(
                f"no file {unknown[0]} in this snapshot or in the workspace", "see goal diff for the paths"
            )
        changes = _files(await self.store.all_changes(now, target))
        return tuple(change for change in changes if not paths or change.path in paths)

    async def perform(self, target: Snapshot, paths: Sequence[str] = ()) -> Restored:
        """Restore. Raise WorkspaceError with what could not be restored, and the snapshot of the state before."""
        before = await self.store.snapshot()
        with contextlib.suppress(OSError):  # a later `goal prune` may drop it then
            put_aside(self.store.folder, before.id)
        try:
            return Restored(_files(await self.store.restore(target, paths)), before)
        except WorkspaceError as error:
            kept = f"the state before is kept as snapshot {before.id[:12]}"
            raise WorkspaceError(error.message, f"{error.hint}\n{kept}" if error.hint else kept) from error

    def close(self) -> None:
        """Let runs work there again."""
        self.store.close()


def _files(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return the changes of files: HEAD, refs and index of the user's repositories are never written."""
    return tuple(change for change in changes if change.kind != "repository")
