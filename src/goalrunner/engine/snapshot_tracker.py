"""The snapshots of a run, and which evidence they make outdated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from goalrunner.core.base import Snapshot
from goalrunner.core.change_history import SAME, ChangedPaths, ChangeHistory, changed_paths
from goalrunner.core.check_ports import Workspace
from goalrunner.core.events import SnapshotTaken
from goalrunner.core.observation import Claim, Observation
from goalrunner.core.round_state import why_stale
from goalrunner.engine.journal import Journal

Moment = Literal["start", "tool", "round", "validators", "resumed", "approval", "complete"]


class SnapshotTracker:
    """Takes snapshots and compares them. Without a workspace there are no snapshots, and nothing is outdated."""

    def __init__(self, workspace: Workspace | None, journal: Journal) -> None:
        self._workspace = workspace
        self._journal = journal
        self._taken: dict[str, Snapshot] = {}
        self._history = ChangeHistory()
        self._newest: Snapshot | None = None
        """The newest snapshot in the history."""
        self._uncompared: list[Snapshot] = []
        """Later ones, oldest first."""
        self._ends: dict[int, str] = {}
        self.last: Snapshot | None = None
        self.round_start: Snapshot | None = None

    def recall(self, snapshots: Sequence[Snapshot], ends: Mapping[int, str], round_start: Snapshot | None) -> None:
        """Restore what an earlier process recorded: its snapshots, oldest first, and the ids of those at the ends of rounds."""
        for snapshot in snapshots:
            self._keep(snapshot)
        self._ends.update(ends)
        self.last = snapshots[-1] if snapshots else None
        self.round_start = round_start

    def begin_round(self) -> None:
        """Note the last snapshot as the start of a round."""
        self.round_start = self.last

    @property
    def idle(self) -> bool:
        """Whether the round changed nothing but ignored files; False without a workspace."""
        return self.last is not None and self.round_start is not None and self.last.id == self.round_start.id

    async def end_round(self, number: int) -> Snapshot | None:
        """Take the snapshot at the end of a round."""
        snapshot = await self.take("round")
        if snapshot is not None:
            self._ends[number] = snapshot.id
        return snapshot

    async def take(self, moment: Moment) -> Snapshot | None:
        """Take a snapshot; record it if it differs from the last one."""
        if self._workspace is None:
            return None
        snapshot = await self._workspace.snapshot()
        if self.last is None or snapshot.id != self.last.id:
            self._journal.append(SnapshotTaken(snapshot=snapshot, moment=moment))
        self._keep(snapshot)
        self.last = snapshot
        return snapshot

    def _keep(self, snapshot: Snapshot) -> None:
        self._taken[snapshot.id] = snapshot
        newest = self._uncompared[-1] if self._uncompared else self._newest
        if newest is None or newest.id != snapshot.id:
            self._uncompared.append(snapshot)

    async def _compare_new(self, workspace: Workspace) -> None:
        """Compare each new snapshot with the one before it, all in one call."""
        if not self._uncompared:
            return
        new = tuple(self._uncompared)
        if self._newest is None:
            self._history.add(new[0].id, {})
            self._newest = new[0]
            del self._uncompared[0]
            new = new[1:]
        if new:
            steps = await workspace.differences((self._newest, *new))
            for snapshot, step in zip(new, steps, strict=True):
                self._history.add(snapshot.id, step)
            self._newest = new[-1]
            del self._uncompared[: len(new)]

    async def changed(self, old: Snapshot | None, new: Snapshot | None) -> tuple[str, ...]:
        """Return the paths that differ, without caches, ignored files and outputs."""
        if self._workspace is None or old is None or new is None or old.id == new.id:
            return ()
        await self._compare_new(self._workspace)
        if self._history.knows(old.id, new.id):
            return self._history.between(old.id, new.id)
        return tuple(sorted((await self._workspace.differences((old, new)))[0]))

    async def patch(self, old: Snapshot | None, new: Snapshot | None) -> str:
        """Return a unified patch for reading; empty without a workspace."""
        if self._workspace is None or old is None or new is None:
            return ""
        return await self._workspace.diff(old, new)

    async def stale(self, items: Sequence[Observation | Claim], final: Snapshot | None) -> dict[str, str]:
        """Return by observation id why it is outdated at `final`."""
        if self._workspace is None or final is None:
            return {}
        await self._compare_new(self._workspace)
        earlier = self._history.before(final.id) if self._history.knows(final.id) else {}

        async def compare(old: Snapshot | None, new: Snapshot | None) -> ChangedPaths:
            if old is None or new is None or old.id == new.id:
                return SAME
            if new.id == final.id and old.id in earlier:
                return earlier[old.id]
            return changed_paths(await self.changed(old, new))

        reasons: dict[str, str] = {}
        for item in items:
            if isinstance(item, Observation):
                reason = await why_stale(item, self._taken, self._ends, final, compare)
                if reason:
                    reasons[item.id] = reason
        return reasons
