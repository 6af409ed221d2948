"""The snapshots of a run, and what changed between them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from goalrunner.core.call_order import stale_by_order
from goalrunner.core.errors import WorkspaceError
from goalrunner.core.events import SnapshotTaken
from goalrunner.core.freshness import is_git, newest
from goalrunner.core.observation import Claim, DiffStat, Observation, Snapshot
from goalrunner.core.snapshot_history import SnapshotHistory
from goalrunner.engine.journal import RunJournal
from goalrunner.engine.staleness import why_stale

if TYPE_CHECKING:
    from goalrunner.snapshots.store import SnapshotStore

Moment = Literal[
    "start", "tool", "round", "validators", "resumed", "approval", "complete"
]

Difference = Mapping[str, tuple[str, str]]
"""By path: what identifies its content before and after.

It is empty where the path does not exist.
"""


def joined(differences: Sequence[Difference]) -> Difference:
    """Return consecutive differences as one, without paths that changed back."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for difference in differences:
        for path, (old, new) in difference.items():
            before.setdefault(path, old)
            after[path] = new
    return {
        path: (before[path], content)
        for path, content in after.items()
        if content != before[path]
    }


def gone_or_reverted(
    since_start: Difference, committed: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the paths whose uncommitted content of the start was lost.

    They do not exist any more, or have the content of the commit at the start, which is
    `committed`, by path. A file that was moved is not lost.
    """
    contents_now = {now for _, now in since_start.values() if now}
    paths: list[str] = []
    for path, (then, now) in since_start.items():
        content = committed.get(path, "")
        if is_git(path) or not then or then == content:
            continue
        is_gone = not now and then not in contents_now
        is_reverted = bool(now) and now == content
        if is_gone or is_reverted:
            paths.append(path)
    return tuple(sorted(paths))


@dataclass(frozen=True)
class RoundChanges:
    """The snapshot at the end of a round, and what changed: fields of RoundFinished."""

    snapshot: Snapshot | None
    idle: bool
    """Whether nothing changed in the round."""
    changes: DiffStat | None
    """What changed in the round."""
    total: DiffStat | None
    """What changed since the start of the run."""
    touched: dict[str, int] | None
    """The time of the last change of each path that changed in the round."""
    gone_or_reverted: tuple[str, ...]
    """Paths whose uncommitted content of the start was lost."""


class SnapshotTracker:
    """Takes snapshots and compares them.

    Without a store there are no snapshots: the order of the calls says what is
    outdated, and nothing is if the response is the deliverable.
    """

    def __init__(self, store: SnapshotStore | None, journal: RunJournal) -> None:
        self._store = store
        self.journal = journal
        # From each snapshot to the next one, as far as they were compared.
        self._neighbours: list[Difference] = []

    @property
    def _history(self) -> SnapshotHistory:
        return self.journal.history

    @property
    def last(self) -> Snapshot | None:
        return self._history.snapshots[-1] if self._history.snapshots else None

    @property
    def round_start(self) -> Snapshot | None:
        """The snapshot at the start of the current round."""
        return self._history.starts.get(self.journal.state.round)

    async def has_changed(self) -> bool:
        """Return whether the workspace has changed in the current round.

        Return False without a workspace.
        """
        started, now = self.round_start, await self.take("round")
        return started is not None and now is not None and now.id != started.id

    async def end_round(self) -> RoundChanges:
        """Take the snapshot at the end of a round; return it, and what changed."""
        snapshot = await self.take("round")
        base, started = self.journal.state.base, self.round_start
        # Each figure needs processes of git, which run side by side.
        total, changes = await asyncio.gather(
            self._diff_stat(base, snapshot), self._diff_stat(started, snapshot)
        )
        idle = False
        if snapshot is not None and started is not None:
            idle = snapshot.id == started.id
        return RoundChanges(
            snapshot=snapshot,
            idle=idle,
            changes=changes,
            total=total,
            touched=await self._touched(started, snapshot),
            gone_or_reverted=await self._gone_or_reverted(snapshot),
        )

    async def _gone_or_reverted(self, snapshot: Snapshot | None) -> tuple[str, ...]:
        base = self.journal.state.base
        if self._store is None or base is None or snapshot is None:
            return ()
        # It is only for display, so a failure does not end the run.
        with suppress(WorkspaceError):
            since_start = await self._difference(base, snapshot)
            only_new = all(now and not then for then, now in since_start.values())
            # Reading the commit costs a process, which most rounds do not need.
            committed = None if only_new else await self._store.committed()
            if committed is not None:
                return gone_or_reverted(since_start, committed)
        return ()

    async def _touched(
        self, started: Snapshot | None, ended: Snapshot | None
    ) -> dict[str, int] | None:
        """Return the time of the last change of each path that changed in this round.

        Return None if the times are not known.
        """
        number = self.journal.state.round
        began = self._history.began.get(number)
        if self._store is None or started is None or ended is None or began is None:
            return None
        earliest = began
        for item in self.journal.observations(number):
            if item.started is not None:
                earliest = min(earliest, item.started)
        times = await self._store.touched(earliest)
        differing: Difference = {}
        if started.id != ended.id:
            [differing] = await self._store.differences((started, ended))
        if times is None:
            return None
        for path, (_, content) in differing.items():
            # A changed file without a new time: the file system has another clock.
            if content and path not in times and not is_git(path):
                return None
        return newest(times)

    def after_changes(self) -> int | None:
        """Return a time after all changes so far, at which a tool is started.

        Return None without a workspace.
        """
        return None if self._store is None else self._store.clock.after_changes()

    def note_changes(self) -> int | None:
        """Return the time at which a tool has ended; None without a workspace."""
        return None if self._store is None else self._store.clock.note()

    async def _diff_stat(
        self, old: Snapshot | None, new: Snapshot | None
    ) -> DiffStat | None:
        """Count what changed between two snapshots; None if that is not known."""
        if self._store is None or old is None or new is None:
            return None
        if old.id == new.id:
            return DiffStat()
        # It is only for display, so a failure does not end the run.
        with suppress(WorkspaceError):
            return await self._store.diff_stat(old, new)
        return None

    async def take(self, moment: Moment) -> Snapshot | None:
        """Take a snapshot; record it if it differs from the last one."""
        if self._store is None:
            return None
        snapshot = await self._store.snapshot()
        if self.last is None or snapshot.id != self.last.id:
            self.journal.append(SnapshotTaken(snapshot=snapshot, moment=moment))
        return snapshot

    async def changed(
        self, old: Snapshot | None, new: Snapshot | None
    ) -> tuple[str, ...]:
        """Return the paths that differ, without caches, ignored files and outputs."""
        if old is None or new is None:
            return ()
        return tuple(sorted(await self._difference(old, new)))

    async def _difference(self, old: Snapshot, new: Snapshot) -> Difference:
        """Return what differs, without caches, ignored files and outputs."""
        if self._store is None or old.id == new.id:
            return {}
        places = self._history.places
        if old.id not in places or new.id not in places:
            return joined(await self._store.differences((old, new)))
        # Neighbours are compared once; each git process costs milliseconds, and the
        # evidence of a round asks for many pairs.
        uncompared = self._history.snapshots[len(self._neighbours) :]
        if len(uncompared) > 1:
            self._neighbours += await self._store.differences(uncompared)
        first, last = places[old.id], places[new.id]
        if first <= last:
            return joined(self._neighbours[first:last])
        backwards = joined(self._neighbours[last:first])
        return {path: (then, now) for path, (now, then) in backwards.items()}

    async def patch(
        self, old: Snapshot | None, new: Snapshot | None, paths: Sequence[str] = ()
    ) -> str:
        """Return a unified patch for reading, of these paths or of all.

        It is empty without a workspace.
        """
        if self._store is None or old is None or new is None:
            return ""
        return await self._store.diff(old, new, paths)

    async def stale(
        self, items: Sequence[Observation | Claim], final: Snapshot | None
    ) -> dict[str, str]:
        """Return by observation id why it is outdated at `final`."""
        if self._store is None and self.journal.state.plan.deliverable == "workspace":
            return stale_by_order(items)
        if self._store is None or final is None:
            return {}
        # Many observations share their snapshots.
        compared: dict[tuple[Snapshot | None, Snapshot | None], tuple[str, ...]] = {}

        async def compare(
            old: Snapshot | None, new: Snapshot | None
        ) -> tuple[str, ...]:
            if (old, new) not in compared:
                compared[old, new] = await self.changed(old, new)
            return compared[old, new]

        reasons: dict[str, str] = {}
        for item in items:
            if isinstance(item, Observation):
                reason = await why_stale(item, self._history, final, compare)
                if reason:
                    reasons[item.id] = reason
        return reasons
