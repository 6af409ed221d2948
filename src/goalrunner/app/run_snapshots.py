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
    """The snapshots of one workspace, to be read; nothing is claimed before something is taken or restored."""

    def __init__(
        self,
        workspace: Path,
        home: Path,
        environ: Mapping[str, str],
        outputs: Sequence[str] = (),
        start: Path | None = None,
    ) -> None:
        """`start` is the folder in which the run kept its ignore rules; where it did not, those of now are read.

        Raises WorkspaceError where there are no snapshots, or git is missing.
        """
        kept = start if start is not None and Start(start).frozen else None
        self.store = SnapshotStore(workspace, home, outputs=outputs, start=kept, environ=environ)
        if not self.store.folder.is_dir():
            raise WorkspaceError(
                f"the snapshots of {workspace} are gone: there is no {self.store.folder}",
                "they are kept for the home of the run (GOAL_HOME) and the path that the workspace had",
            )
        self._git = Git(self.store.folder, self.store.workspace, environ)

    async def require(self, *snapshots: Snapshot) -> None:
        """Raises WorkspaceError naming the first that is no longer kept."""
        for snapshot in snapshots:
            if not await keeps(self._git, snapshot):
                raise WorkspaceError(f"snapshot {snapshot.id[:12]} is no longer kept in {self.store.folder}")

    async def find(self, beginning: str) -> Snapshot:
        """The snapshot whose id begins so. Raises UsageError for none or several."""
        return await find_snapshot(self._git, beginning)


@dataclass
class RunSnapshots:
    """The snapshots that a log names. Round 0 is the start of the run."""

    run_id: str = ""
    workspace: str = ""
    starts: dict[int, Snapshot] = field(default_factory=dict)
    """The workspace as each round found it."""
    ends: dict[int, Snapshot] = field(default_factory=dict)
    """The workspace as each round left it; 0: at the start of the run."""

    def end(self, number: int | None) -> tuple[int, Snapshot]:
        """A round and what it left; None is the newest. Raises UsageError where it left nothing."""
        if not self.ends:
            raise UsageError(
                f"run {self.run_id} took no snapshots", "they are taken where the deliverable is the workspace"
            )
        number = max(self.ends) if number is None else number
        if number not in self.ends:
            raise UsageError(*self._no_end(number))
        return number, self.ends[number]

    def both(self, number: int | None) -> tuple[Snapshot, Snapshot]:
        """What a round found and what it left; None: the whole run, to the end of its newest round.

        Raises UsageError where there is no such round.
        """
        if number is None and max(self.ends, default=0) > 0:
            return self.ends.get(0) or self.starts[min(self.starts)], self.end(None)[1]
        if number == 0:
            raise UsageError("round 0 is the start of the run, which changed nothing", "rounds are counted from 1")
        number, end = self.end(number)
        if number not in self.starts:
            raise UsageError(f"no round of run {self.run_id} has ended yet", "goal status shows where it stands")
        return self.starts[number], end

    def _no_end(self, number: int) -> tuple[str, str]:
        known = max(self.ends)
        last = f"the last that ended is round {known}" if known else "no round has ended yet"
        if number in self.starts:
            return f"round {number} of run {self.run_id} has not ended", last
        return f"run {self.run_id} has no round {number}", last


def snapshots_of(records: Iterable[Record]) -> RunSnapshots:
    """The snapshots of a run by round."""
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
    """What a round changed, or the whole run."""

    round: int | None
    """None: the whole run, from its start to the end of its newest round."""
    changes: tuple[Change, ...]
    text: str
    """A unified patch, for reading."""


async def round_patch(
    snapshots: RunSnapshots, home: Path, environ: Mapping[str, str], number: int | None = None
) -> RoundPatch:
    """The patch of a round, None: of the whole run. Raises UsageError for no such round, WorkspaceError for no store."""
    start, end = snapshots.both(number)
    kept = KeptStore(Path(snapshots.workspace), home, environ)
    await kept.require(start, end)
    changes = await kept.store.all_changes(start, end)
    return RoundPatch(number, changes, await kept.store.diff(start, end))


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
