"""The snapshots of a run, what changed between them, and which evidence is outdated."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from goalrunner.core.base import Snapshot
from goalrunner.core.check_ports import Workspace
from goalrunner.core.events import SnapshotTaken
from goalrunner.core.observation import OWNER, RESPONSE, Claim, Observation
from goalrunner.engine.journal import Journal

Moment = Literal["start", "tool", "round", "validators", "resumed", "approval", "complete"]


Step = Mapping[str, tuple[str, str]]
"""By path: what identifies its content before and after; empty where the path does not exist."""

SHOWN = 3
"""Paths that a message names."""

_FEW = 100
"""Changes of one step up to which they are sorted in one by one."""


@dataclass(frozen=True)
class ChangedPaths:
    """The paths that differ between two snapshots."""

    first: tuple[str, ...]
    """The first SHOWN of them, sorted."""
    count: int
    has: Callable[[str], bool]

    def __bool__(self) -> bool:
        return self.count > 0


def changed_paths(paths: Sequence[str]) -> ChangedPaths:
    """Return sorted paths as ChangedPaths."""
    return ChangedPaths(tuple(paths[:SHOWN]), len(paths), frozenset(paths).__contains__)


SAME = changed_paths(())
"""No path differs."""


class ChangeHistory:
    """The snapshots of a run in order, and the step that leads to each.

    A path that changed and changed back does not differ: contents are compared, not counts of changes.
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
        """The one at index n leads to the snapshot at place n."""
        self._places: dict[str, int] = {}
        self._versions: dict[str, tuple[list[int], list[str]]] = {}
        """By path: the places at which it changed, and its contents, the one before the first change included."""

    def add(self, snapshot: str, step: Step) -> None:
        """Append the snapshot of this id; the first one has an empty step."""
        place = len(self._steps)
        self._steps.append(step)
        # An id that comes again is the same content, so its newest place stands for all of them.
        self._places[snapshot] = place
        for path, (before, after) in step.items():
            places, contents = self._versions.setdefault(path, ([], [before]))
            places.append(place)
            contents.append(after)

    def knows(self, *snapshots: str) -> bool:
        """Return whether all these ids were added."""
        return all(snapshot in self._places for snapshot in snapshots)

    def between(self, one: str, other: str) -> tuple[str, ...]:
        """Return the paths that differ between two snapshots, sorted. Raise KeyError for an unknown id."""
        first, last = sorted((self._places[one], self._places[other]))
        touched = {path for step in self._steps[first + 1 : last + 1] for path in step}
        return tuple(sorted(path for path in touched if self._content(path, first) != self._content(path, last)))

    def before(self, final: str) -> dict[str, ChangedPaths]:
        """Return by snapshot, for those up to `final`, what differs from it. Takes time by the number of all changes."""
        end = self._places[final]
        places: list[ChangedPaths] = []
        differing: list[str] = []
        for place in range(end, -1, -1):
            places.append(ChangedPaths(tuple(differing[:SHOWN]), len(differing), self._test(place, end)))
            differing = self._stepped_back(differing, self._steps[place], end)
        places.reverse()
        return {snapshot: places[place] for snapshot, place in self._places.items() if place <= end}

    def _stepped_back(self, differing: list[str], step: Step, end: int) -> list[str]:
        """Return what differs from the place `end` one step earlier."""
        differs = {path: before != self._content(path, end) for path, (before, _) in step.items()}
        if len(step) > _FEW:
            kept = {path for path in differing if path not in differs}
            return sorted(kept.union(path for path, is_other in differs.items() if is_other))
        for path, is_other in differs.items():
            place = bisect_left(differing, path)
            there = place < len(differing) and differing[place] == path
            if is_other and not there:
                insort(differing, path)
            elif there and not is_other:
                del differing[place]
        return differing

    def _test(self, place: int, end: int) -> Callable[[str], bool]:
        return lambda path: self._content(path, place) != self._content(path, end)

    def _content(self, path: str, place: int) -> str:
        if path not in self._versions:
            return ""
        places, contents = self._versions[path]
        return contents[bisect_right(places, place)]


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


Compare = Callable[[Snapshot | None, Snapshot | None], Awaitable[ChangedPaths]]
"""Gives the paths that differ in what counts, between one snapshot and another; none where one is unknown."""


async def why_stale(
    item: Observation, taken: Mapping[str, Snapshot], ends: Mapping[int, str], final: Snapshot, compare: Compare
) -> str:
    """Return why an observation is outdated at `final`, in words; empty if it is not.

    `taken` are the snapshots by id, `ends` by round the id of the one at its end.

    A file tool's observation depends only on its own path, a command's on everything before, during and after it. The
    response and a person's answer depend on no snapshot. For what an external agent reports, its whole round counts.
    """
    if item.source in (RESPONSE, OWNER) and not item.reported_by:
        return ""
    end = ends.get(item.round) if item.reported_by else item.after
    before, after = taken.get(item.before or ""), taken.get(end or "")
    if after is None or (before is None and item.reported_by):
        return f"it is not known on which files {item.id} was seen"
    later = await compare(after, final)
    if item.path is not None and not item.reported_by:
        return f"{item.path} changed after {item.id}" if later.has(item.path) else ""
    during = await compare(before, after)
    if during and item.reported_by:
        return f"{_some(during)} changed in the round in which {item.reported_by} reported {item.id}"
    if during:
        return f"{item.id} itself changed {_some(during)}; run the check alone, after the change"
    return f"{_some(later)} changed after {item.id}" if later else ""


def _some(paths: ChangedPaths) -> str:
    more = paths.count - len(paths.first)
    return ", ".join(paths.first) + (f" and {more} more" if more else "")
