"""The snapshots of a run, and what each round began and ended with."""

from __future__ import annotations

from datetime import datetime

from goalrunner.core import events
from goalrunner.core.freshness import ChangeTimes
from goalrunner.core.observation import Snapshot


class SnapshotHistory:
    """All snapshots of a run, and those around each round; round 0 is the start."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        """Oldest first; each differs from the one before."""
        self.places: dict[str, int] = {}
        """By id: the newest place in that list."""
        self.starts: dict[int, Snapshot] = {}
        self.ends: dict[int, Snapshot] = {}
        self.began: dict[int, int] = {}
        """By round: when it began, in nanoseconds since 1970."""
        self.touched: dict[int, ChangeTimes | None] = {}
        """By round: when paths last changed in it; None: not known."""
        self.written: set[str] = set()
        """Files that validators have written so far."""

    def add(self, event: events.Event, at: str = "") -> None:
        """Process one event, which was recorded at a time (ISO 8601)."""
        match event:
            case events.SnapshotTaken(snapshot=snapshot, moment=moment):
                self.places[snapshot.id] = len(self.snapshots)
                self.snapshots.append(snapshot)
                if moment == "start":
                    self.ends.setdefault(0, snapshot)
            case events.RoundStarted(round=number) if self.snapshots:
                self.starts[number] = self.snapshots[-1]
                self.began[number] = _nanoseconds(at) if at else 0
            case events.RoundFinished(round=number, snapshot=Snapshot() as snapshot):
                self.ends[number] = snapshot
                self.touched[number] = event.touched
            case events.ValidatorsFinished(written=written, left=new_files):
                self.written.update(written, new_files)
            case events.BaselineTaken(written=written):
                self.written.update(written)
            case _:
                pass

    def find(self, identifier: str | None) -> Snapshot | None:
        """Return the snapshot of that id, if it was taken."""
        place = self.places.get(identifier or "")
        return None if place is None else self.snapshots[place]


def _nanoseconds(at: str) -> int:
    """Return a time (ISO 8601) in nanoseconds since 1970, in whole milliseconds."""
    # A float of seconds is exact to milliseconds only.
    return int(datetime.fromisoformat(at).timestamp() * 1_000) * 1_000_000
