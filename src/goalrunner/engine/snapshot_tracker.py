"""The snapshots of a run, what changed between them, which evidence is outdated, and which validators are flaky."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from goalrunner.core.errors import WorkspaceError, some
from goalrunner.core.events import SnapshotTaken
from goalrunner.core.observation import OWNER, RESPONSE, Claim, DiffStat, Observation, Snapshot
from goalrunner.core.ports import Workspace
from goalrunner.engine.journal import Journal

Moment = Literal["start", "tool", "round", "validators", "resumed", "approval", "complete"]

Step = Mapping[str, tuple[str, str]]
"""By path: what identifies its content before and after; empty where the path does not exist."""


def differing(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the paths that differ after consecutive steps, sorted. A path that changed and changed back does not differ."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for step in steps:
        for path, (old, new) in step.items():
            before.setdefault(path, old)
            after[path] = new
    return tuple(sorted(path for path, content in after.items() if content != before[path]))


class SnapshotTracker:
    """Takes snapshots and compares them. Without a workspace there are no snapshots, and nothing is outdated."""

    def __init__(self, workspace: Workspace | None, journal: Journal) -> None:
        self._workspace = workspace
        self._journal = journal
        self._taken: dict[str, Snapshot] = {}
        self._order: list[Snapshot] = []  # oldest first; each differs from the one before
        self._places: dict[str, int] = {}  # by id: its newest place in that order
        self._steps: list[Step] = []  # from each snapshot to the next one, as far as they were compared
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

    async def end_round(self, number: int) -> dict[str, Any]:
        """Take the snapshot at the end of a round; return it, and what changed, as fields of RoundFinished."""
        snapshot = await self.take("round")
        if snapshot is not None:
            self._ends[number] = snapshot.id
        base, started = self._journal.state.base, self.round_start
        total = await self._diff_stat(base, snapshot)
        changes = total if started == base else await self._diff_stat(started, snapshot)
        idle = snapshot is not None and started is not None and snapshot.id == started.id
        return {"snapshot": snapshot, "idle": idle, "changes": changes, "total": total}

    async def _diff_stat(self, old: Snapshot | None, new: Snapshot | None) -> DiffStat | None:
        """Count what changed between two snapshots; None if that is not known."""
        if self._workspace is None or old is None or new is None:
            return None
        with suppress(WorkspaceError):  # a figure for people, which no run fails for
            return DiffStat() if old.id == new.id else await self._workspace.diff_stat(old, new)
        return None

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
        if not self._order or self._order[-1].id != snapshot.id:
            self._places[snapshot.id] = len(self._order)
            self._order.append(snapshot)

    async def changed(self, old: Snapshot | None, new: Snapshot | None) -> tuple[str, ...]:
        """Return the paths that differ, without caches, ignored files and outputs."""
        if self._workspace is None or old is None or new is None or old.id == new.id:
            return ()
        if old.id not in self._places or new.id not in self._places:
            return differing(await self._workspace.differences((old, new)))
        uncompared = self._order[len(self._steps) :]
        if len(uncompared) > 1:
            self._steps += await self._workspace.differences(uncompared)
        first, last = sorted((self._places[old.id], self._places[new.id]))
        return differing(self._steps[first:last])

    async def patch(self, old: Snapshot | None, new: Snapshot | None) -> str:
        """Return a unified patch for reading; empty without a workspace."""
        if self._workspace is None or old is None or new is None:
            return ""
        return await self._workspace.diff(old, new)

    async def stale(self, items: Sequence[Observation | Claim], final: Snapshot | None) -> dict[str, str]:
        """Return by observation id why it is outdated at `final`."""
        if self._workspace is None or final is None:
            return {}
        seen: dict[tuple[Snapshot | None, Snapshot | None], tuple[str, ...]] = {}

        async def compare(old: Snapshot | None, new: Snapshot | None) -> tuple[str, ...]:
            if (old, new) not in seen:
                seen[old, new] = await self.changed(old, new)
            return seen[old, new]

        observations = [item for item in items if isinstance(item, Observation)]
        reasons = {item.id: await why_stale(item, self._taken, self._ends, final, compare) for item in observations}
        return {identifier: reason for identifier, reason in reasons.items() if reason}


Compare = Callable[[Snapshot | None, Snapshot | None], Awaitable[Sequence[str]]]
"""Returns the paths that differ between two snapshots, sorted; none where one is unknown."""


async def why_stale(
    item: Observation, taken: Mapping[str, Snapshot], ends: Mapping[int, str], final: Snapshot, compare: Compare
) -> str:
    """Return why an observation is outdated at `final`, in words; empty if it is not.

    `taken` are the snapshots by id, `ends` by round the id of the one at its end. A file tool's observation depends only on
    its own path, a command's on everything before, during and after it. The response and a person's answer depend on no
    snapshot. For the report of an external agent, all changes in its round count.
    """
    if item.source in (RESPONSE, OWNER) and not item.reported_by:
        return ""
    end = ends.get(item.round) if item.reported_by else item.after
    before, after = taken.get(item.before or ""), taken.get(end or "")
    if after is None or (before is None and item.reported_by):
        return f"it is not known on which files {item.id} was seen"
    later = await compare(after, final)
    if item.path is not None and not item.reported_by:
        return f"{item.path} changed after {item.id}" if item.path in later else ""
    during = await compare(before, after)
    if during and item.reported_by:
        return f"{some(during, 3)} changed in the round in which {item.reported_by} reported {item.id}"
    if during:
        return f"{item.id} itself changed {some(during, 3)}; run the check alone, after the change"
    return f"{some(later, 3)} changed after {item.id}" if later else ""
