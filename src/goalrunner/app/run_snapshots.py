"""The snapshots of finished runs: patches, restoring, and removing runs with the
snapshots that no run needs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from goalrunner.app.previous_run import LoadedRun
from goalrunner.core.errors import UsageError, WorkspaceError
from goalrunner.core.observation import Change, Snapshot
from goalrunner.core.outcome import FINAL
from goalrunner.core.snapshot_history import SnapshotHistory
from goalrunner.records.removal import finish_removals, unfinished
from goalrunner.records.run_folder import CHECKS, RUNS, RunFolder
from goalrunner.records.run_summaries import run_summaries
from goalrunner.records.writer_lock import is_written
from goalrunner.snapshots.git import Git
from goalrunner.snapshots.ignore_rules import Start
from goalrunner.snapshots.objects import find_snapshot, keeps
from goalrunner.snapshots.store import SnapshotStore
from goalrunner.snapshots.store_folder import (
    last_used,
    put_aside,
    remove_store,
    shrink,
    store_name,
)

# Stop reasons of a run that waits for a person.
_WAITING = (
    "approval_required",
    "question_open",
)
# Any text in a log that may be the id of a snapshot: the log may be damaged, and in
# doubt a snapshot is kept.
_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class KeptStore:
    """The snapshots of one workspace, and restoring one of them."""

    def __init__(
        self,
        workspace: Path,
        home: Path,
        environ: Mapping[str, str],
        outputs: Sequence[str] = (),
        start: Path | None = None,
    ) -> None:
        """Open the store, with the ignore rules that the run kept in `start`.

        Raise WorkspaceError if there are no snapshots.
        """
        kept = start if start is not None and Start(start).frozen else None
        self.store = SnapshotStore(
            workspace, home, outputs=outputs, start=kept, environ=environ
        )
        if not self.store.folder.is_dir():
            raise WorkspaceError(
                f"the snapshots of {workspace} are gone: there is no "
                f"{self.store.folder}",
                "use the GOAL_HOME of the run and the path that the workspace had",
            )
        self.git = Git(self.store.folder, self.store.workspace, environ)

    async def require(self, *snapshots: Snapshot) -> None:
        """Raise WorkspaceError if one is no longer kept."""
        for snapshot in snapshots:
            if not await keeps(self.git, snapshot):
                raise WorkspaceError(
                    f"snapshot {snapshot.id[:12]} is no longer kept in "
                    f"{self.store.folder}"
                )

    async def find(self, beginning: str) -> Snapshot:
        """Return the only snapshot whose id begins so. Raise UsageError."""
        return await find_snapshot(self.git, beginning)

    async def plan(
        self, target: Snapshot, paths: Sequence[str] = ()
    ) -> tuple[Change, ...]:
        """Return what would be changed, in these paths or in all.

        No run can use the workspace until the store is closed.
        """
        workspace = self.store.workspace
        if not workspace.is_dir():
            raise WorkspaceError(
                f"the workspace {workspace} is gone",
                f"mkdir -p {workspace}, then restore into it",
            )
        now = await self.store.snapshot()  # first: it claims the workspace
        await self.require(target)
        known = (
            {*await self.store.entries(now), *await self.store.entries(target)}
            if paths
            else set()
        )
        if unknown := [path for path in paths if path not in known]:
            raise UsageError(
                f"no file {unknown[0]} in this snapshot or in the workspace",
                "see goal diff for the paths",
            )
        changes = _files(await self.store.all_changes(now, target))
        return tuple(change for change in changes if not paths or change.path in paths)

    async def perform(
        self, target: Snapshot, paths: Sequence[str] = ()
    ) -> tuple[tuple[Change, ...], Snapshot]:
        """Restore; return what was changed, and a snapshot of the state before, which
        an error names as well.
        """
        before = await self.store.snapshot()
        # Then a later `goal prune` may remove the snapshot.
        with contextlib.suppress(OSError):
            put_aside(self.store.folder, before.id)
        try:
            return _files(await self.store.restore(target, paths)), before
        except WorkspaceError as error:
            kept = f"the state before is kept as snapshot {before.id[:12]}"
            raise WorkspaceError(
                error.message, f"{error.hint}\n{kept}" if error.hint else kept
            ) from error


@dataclass(frozen=True)
class RunSnapshots:
    """The snapshots of a run by round."""

    run_id: str
    workspace: str
    history: SnapshotHistory

    @classmethod
    def of(cls, loaded: LoadedRun) -> Self:
        """Return those of a run whose log was read."""
        return cls(
            loaded.state.goal.run_id, loaded.started.workspace, loaded.evidence.history
        )

    def end(self, number: int | None) -> tuple[int, Snapshot]:
        """Return a round, by default the newest, and the snapshot at its end.

        Raise UsageError if there is none.
        """
        ends = self.history.ends
        if not ends:
            hint = (
                'the agent has not run, or deliverable = "response"; see goal show '
                f"{self.run_id}"
            )
            raise UsageError(f"run {self.run_id} took no snapshots", hint)
        newest = max(ends)
        number = newest if number is None else number
        if number not in ends:
            what = (
                "has not ended" if number in self.history.starts else "does not exist"
            )
            raise UsageError(
                f"round {number} of run {self.run_id} {what}",
                f"the last ended round is {newest}",
            )
        return number, ends[number]

    def both(self, number: int | None) -> tuple[Snapshot, Snapshot]:
        """Return the snapshots before and after a round; None is the whole run.

        Raise UsageError if there is no such round.
        """
        starts, ends = self.history.starts, self.history.ends
        if number is None and max(ends, default=0) > 0:
            first = ends.get(0) or starts[min(starts)]
            return first, ends[max(ends)]
        if number == 0:
            raise UsageError(
                "round 0 is the start of the run, which changed nothing",
                "rounds are counted from 1",
            )
        number, end = self.end(number)
        if number not in starts:
            raise UsageError(
                f"no round of run {self.run_id} has ended yet",
                "goal status shows its state",
            )
        return starts[number], end


@dataclass(frozen=True)
class RoundPatch:
    """The changes of a round, or of the whole run if `round` is None.

    In `text`, bytes that are not UTF-8 are surrogates.
    """

    round: int | None
    changes: tuple[Change, ...]
    text: str


async def round_patch(
    snapshots: RunSnapshots,
    home: Path,
    environ: Mapping[str, str],
    number: int | None = None,
) -> RoundPatch:
    """Return the patch of a round, or of the whole run.

    Raise UsageError for no such round, WorkspaceError for no store.
    """
    start, end = snapshots.both(number)
    kept = KeptStore(Path(snapshots.workspace), home, environ)
    await kept.require(start, end)
    [text] = await kept.store.patches([(start, end)])
    return RoundPatch(number, await kept.store.changes(start, end), text)


def _files(changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Return the changes of files: HEAD, refs and index of the user's repositories are
    never written.
    """
    return tuple(change for change in changes if change.kind != "repository")


@dataclass(frozen=True)
class OldRun:
    """A run that is old enough to be removed, its summary, how it ended, and whether it
    could be resumed.
    """

    folder: RunFolder
    summary: Mapping[str, Any]
    why: str
    resumable: bool


def old_runs(home: Path, seconds: float, now: datetime) -> list[OldRun]:
    """Return the runs that ended longer ago than that, oldest first, without those that
    run or wait for a person.
    """
    found = []
    for summary in reversed(run_summaries(home)):
        folder = RunFolder(home / RUNS / str(summary["run_id"]))
        if summary.get("stop_reason") in _WAITING or is_written(folder.events):
            continue
        times = (
            summary.get("finished_at"),
            summary.get("updated_at"),
            summary.get("started_at"),
        )
        if (
            now - datetime.fromisoformat(str(next(filter(None, times))))
        ).total_seconds() <= seconds:
            continue
        status, reason = (
            str(summary.get("status")),
            str(summary.get("stop_reason") or ""),
        )
        why = (
            f"{status}, {reason}" if reason not in ("", status, "satisfied") else status
        )
        resumable = reason not in FINAL
        if status == "unreadable":
            rest = "" if folder.is_empty else "; its log may still be whole"
            why = f"unreadable ({summary.get('message')}){rest}"
        elif resumable:
            why = (
                f"{'lost: its process is gone' if status == 'running' else why}; could "
                "be resumed"
            )
        found.append(OldRun(folder, summary, why, resumable))
    return found


def remove_run(home: Path, folder: RunFolder) -> None:
    """Remove a run's folder, as a whole, and its temporary files.

    Raise UsageError if it cannot be removed.
    """
    from goalrunner.app.sandbox import clear_own

    folder.remove()
    clear_own(home, folder.run_id)


@dataclass
class Pruned:
    """The result of `prune`, besides runs: unfinished removals, and snapshots that no
    run needs.
    """

    half_removed: int = 0  # folders that an interrupted removal or a killed check left
    stores: list[str] = field(default_factory=list)
    snapshots: int = 0  # that were removed from other stores
    # Why other snapshots were not removed.
    left: list[str] = field(default_factory=list)


def prune_runs(
    home: Path,
    found: Sequence[OldRun],
    environ: Mapping[str, str],
    since: float,
    *,
    dry_run: bool,
) -> Pruned:
    """Remove runs, and the snapshots that no run needs and that are older than `since`,
    in seconds since 1970.
    """
    folders = (home / RUNS, home / "stores", home / CHECKS)
    checks = _ended_checks(home, since)
    if dry_run:
        return Pruned(sum(len(unfinished(folder)) for folder in folders) + len(checks))
    done = Pruned(sum(map(finish_removals, folders)) + len(checks))
    for folder in (*checks, *(run.folder for run in found)):
        remove_run(home, folder)
    workspaces = _workspaces(home)
    if unknown := [run for run, workspace in workspaces.items() if not workspace]:
        done.left.append(
            f"run {unknown[0]} does not name its workspace, so no snapshot was removed"
        )
        return done
    for store in sorted(
        path for path in folders[1].glob("*") if path.is_dir() and path.name[0] != "."
    ):
        users = [
            Path(user)
            for user in workspaces.values()
            if user and store_name(Path(user)) == store.name
        ]
        try:
            if users:
                done.snapshots += shrink(
                    store,
                    users[0],
                    environ,
                    lambda: _named(home, store.name),  # noqa: B023
                    since,
                )
            elif last_used(store) < since and remove_store(
                store,
                store,
                lambda: bool(_users(home, store.name)),  # noqa: B023
            ):
                done.stores.append(store.name)
        except (WorkspaceError, OSError) as error:
            done.left.append(
                f"{store}: "
                f"{error.message if isinstance(error, WorkspaceError) else error}"
            )
    return done


def _ended_checks(home: Path, since: float) -> list[RunFolder]:
    """Return the folders of checks that were killed before `since`, in seconds since
    1970.
    """
    folders = [RunFolder(path) for path in (home / CHECKS).glob("[!.]*")]
    return [
        folder
        for folder in folders
        if folder.path.stat().st_mtime < since and not is_written(folder.events)
    ]


def _workspaces(home: Path) -> dict[str, str]:
    """Return the workspace of each run by its summary; empty if it is not known.

    A run without events has no snapshots.
    """
    workspaces = {}
    for summary in run_summaries(home):
        run_id, workspace = str(summary["run_id"]), str(summary.get("workspace") or "")
        if workspace or not RunFolder(home / RUNS / run_id).is_empty:
            workspaces[run_id] = workspace
    return workspaces


def _users(home: Path, store: str) -> list[str]:
    """Return the runs that use a store, with those whose workspace is not known."""
    return [
        run
        for run, user in _workspaces(home).items()
        if not user or store_name(Path(user)) == store
    ]


def _named(home: Path, store: str) -> set[str]:
    """Return every snapshot that a run of the store names.

    Raise OSError for a log that cannot be read.
    """
    logs = (RunFolder(home / RUNS / run).events for run in _users(home, store))
    return {match.decode() for log in logs for match in _ID.findall(log.read_bytes())}
