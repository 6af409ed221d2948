"""What the rounds of a run left in the workspace, by its log, and the patch of one or of all. Owns which snapshot is which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from goalrunner import events
from goalrunner.errors import UsageError
from goalrunner.events import Record
from goalrunner.model.snapshot import Change, Snapshot
from goalrunner.review.stores import KeptStore


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
