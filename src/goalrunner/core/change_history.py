"""What changed from each snapshot of a run to the next, by path. Pure; any two snapshots are compared from it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
