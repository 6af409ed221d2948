"""Whether evidence was fresh, asked again of the snapshots that are kept. Owns the question; takes no snapshot."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.errors import RecordError, WorkspaceError
from goalrunner.model.observation import Observation
from goalrunner.model.snapshot import Snapshot
from goalrunner.review.stores import KeptStore
from goalrunner.state.change_history import ChangedPaths, changed_paths
from goalrunner.state.freshness import why_stale


class Freshness:
    """The snapshots of one run. Where they are gone nothing can be said, and `gone` says why."""

    def __init__(self, outputs: Sequence[str], home: Path, environ: Mapping[str, str]) -> None:
        """`outputs` are the patterns of what checks may write."""
        self.gone = ""
        self.unchecked = 0
        self._outputs = tuple(outputs)
        self._home = home
        self._environ = environ
        self._kept: KeptStore | None = None
        self._taken: dict[str, Snapshot] = {}
        self._ends: dict[int, str] = {}
        self._changed: dict[tuple[str, str], ChangedPaths] = {}

    def open(self, workspace: str) -> None:
        """The workspace of the run."""
        try:
            self._kept = KeptStore(Path(workspace), self._home, self._environ, self._outputs)
        except WorkspaceError as error:
            self.gone = error.message

    def add(self, snapshot: Snapshot) -> None:
        """A snapshot that the log names."""
        self._taken[snapshot.id] = snapshot

    def end_round(self, number: int, snapshot: Snapshot) -> None:
        """The snapshot at the end of a round."""
        self.add(snapshot)
        self._ends[number] = snapshot.id

    async def stale(self, item: Observation, final: Snapshot | None) -> str:
        """Why an observation did not count at `final`; empty where it did, or where it cannot be known any more."""
        if final is None:
            return ""
        try:
            return await why_stale(item, self._taken, self._ends, final, self._changes)
        except WorkspaceError as error:
            self.gone = self.gone or error.message
            self.unchecked += 1
            return ""

    async def _changes(self, old: Snapshot | None, new: Snapshot | None) -> ChangedPaths:
        if old is None or new is None or old.id == new.id:
            return changed_paths(())
        if self._kept is None:
            raise WorkspaceError(self.gone)
        key = (old.id, new.id)
        if key not in self._changed:
            await self._kept.require(old, new)
            paths = [change.path for change in await self._kept.store.changes(old, new)]
            self._changed[key] = changed_paths(paths)
        return self._changed[key]


def goal_outputs(goal_file: Path) -> list[str]:
    """The patterns of what checks may write, as the run had them. Raises RecordError."""
    try:
        table = tomllib.loads(goal_file.read_text(encoding="utf-8")).get("workspace", {})
        return [str(pattern) for pattern in table.get("outputs", [])]
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise RecordError(f"the goal of the run cannot be read: {error}") from error
