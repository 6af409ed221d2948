"""Removing old runs, with the snapshots that no run needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from goalrunner.core.errors import RecordError, WorkspaceError
from goalrunner.core.outcome import FINAL
from goalrunner.records.removal import finish_removals, unfinished
from goalrunner.records.run_folder import CHECKS, RUNS, RunFolder
from goalrunner.records.run_summaries import run_summaries
from goalrunner.records.writer_lock import (
    LogInUse,
    WriterLock,
    has_writer,
    lock_of,
)
from goalrunner.snapshots.store_folder import (
    last_used,
    remove_store,
    shrink,
    store_name,
)

# Stop reasons of a run that waits for a person.
_WAITING = ("approval_required", "question_open")
# Any text in a log that may be the id of a snapshot: the log may be damaged, and in
# doubt a snapshot stays.
_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(frozen=True)
class OldRun:
    """A run that is old enough to be removed."""

    folder: RunFolder
    summary: Mapping[str, Any]
    why: str
    """How it ended."""
    resumable: bool


def old_runs(home: Path, seconds: float, now: datetime) -> list[OldRun]:
    """Return the runs that ended longer ago than that, oldest first.

    Runs that a process drives, or that wait for a person, are not among them.
    """
    runs: list[OldRun] = []
    for summary in reversed(run_summaries(home)):
        folder = RunFolder(home / RUNS / str(summary["run_id"]))
        if not is_removable(folder, summary):
            continue
        age = now - last_change(summary)
        if age.total_seconds() > seconds:
            resumable = str(summary.get("stop_reason") or "") not in FINAL
            why = _ending(folder, summary, resumable=resumable)
            runs.append(OldRun(folder, summary, why, resumable))
    return runs


def is_removable(folder: RunFolder, summary: Mapping[str, Any]) -> bool:
    """Return whether a run is over.

    No process drives it then, and it does not wait for a person.
    """
    return summary.get("stop_reason") not in _WAITING and not has_writer(folder.events)


def last_change(summary: Mapping[str, Any]) -> datetime:
    """Return when a run ended, or as much as its summary has."""
    for name in ("finished_at", "updated_at"):
        if summary.get(name):
            return datetime.fromisoformat(str(summary[name]))
    return datetime.fromisoformat(str(summary.get("started_at")))


def _ending(folder: RunFolder, summary: Mapping[str, Any], *, resumable: bool) -> str:
    """Return how a run ended, in words."""
    status = str(summary.get("status"))
    reason = str(summary.get("stop_reason") or "")
    if status == "unreadable":
        # Only the summary is damaged, as far as is known.
        more = "" if folder.is_empty else "; its log may still be whole"
        return f"unreadable ({summary.get('message')}){more}"
    ending = status
    if reason not in ("", status, "satisfied"):
        ending = f"{status}, {reason}"
    if not resumable:
        return ending
    if status == "running":
        ending = "lost: its process is gone"
    return f"{ending}; could be resumed"


def remove_run(home: Path, folder: RunFolder) -> None:
    """Remove a run's folder, as a whole, and its temporary files.

    Raise UsageError if it cannot be removed.
    """
    # Not at the top: listing old runs needs no sandbox.
    from goalrunner.app.sandbox import clear_temporary

    folder.remove()
    clear_temporary(home, folder.run_id)


def remove_ended(home: Path, folder: RunFolder) -> bool:
    """Remove a run unless a process drives it now; return whether it is removed.

    The run is locked meanwhile, so that no process can resume it. Raise UsageError if
    it cannot be removed.
    """
    lock: WriterLock | None = None
    try:
        lock = WriterLock(lock_of(folder.events))
    except LogInUse:
        return False
    except RecordError:
        # Without a lock, as in a folder that cannot be written, no process drives it.
        if not folder.path.exists():
            return False
    try:
        # Another process may have removed it while this one waited for the lock.
        if not folder.path.exists():
            return False
        remove_run(home, folder)
    finally:
        if lock is not None:
            lock.close()
    return True


@dataclass
class Pruned:
    """What `prune_runs` removed besides runs."""

    # Folders that an interrupted removal or a killed check left.
    half_removed: int = 0
    # Frozen bases of copies.
    bases: int = 0
    batches: int = 0
    stores: list[str] = field(default_factory=list)
    # That were removed from other stores.
    snapshots: int = 0
    # Why other snapshots were not removed.
    left: list[str] = field(default_factory=list)


def prune_runs(
    home: Path,
    runs: Sequence[OldRun],
    environ: Mapping[str, str],
    since: float,
    *,
    dry_run: bool,
) -> Pruned:
    """Remove runs, and snapshots that no run needs and that are older than `since`.

    `since` is in seconds since 1970.
    """
    stores = home / "stores"
    folders = (home / RUNS, stores, home / CHECKS)
    checks = ended_checks(home, since)
    if dry_run:
        return Pruned(sum(len(unfinished(folder)) for folder in folders) + len(checks))
    pruned = Pruned(sum(map(finish_removals, folders)) + len(checks))
    for folder in (*checks, *(run.folder for run in runs)):
        # A person may have resumed it since the runs were listed.
        if not remove_ended(home, folder):
            pruned.left.append(f"run {folder.run_id} is active again, or removed")
    for run, workspace in _workspaces(home).items():
        if not workspace:
            # Its snapshots may be in any store.
            pruned.left.append(
                f"run {run} does not name its workspace, so no snapshot was removed"
            )
            return pruned
    for store in sorted(stores.glob("*")):
        # Names of unfinished removals begin with a dot.
        if store.is_dir() and not store.name.startswith("."):
            _prune_store(pruned, store, home, environ, since)
    return pruned


def _prune_store(
    pruned: Pruned, store: Path, home: Path, environ: Mapping[str, str], since: float
) -> None:
    """Remove a store that no run uses, or the snapshots in it that no run needs."""
    workspaces: list[Path] = []
    for workspace in _workspaces(home).values():
        if workspace and store_name(Path(workspace)) == store.name:
            workspaces.append(Path(workspace))

    # Both are asked once more when the store is locked.
    named = needed_snapshots(home, store.name)

    def is_used() -> bool:
        return bool(_users(home, store.name))

    try:
        if workspaces:
            pruned.snapshots += shrink(store, workspaces[0], environ, named, since)
        elif last_used(store) < since and remove_store(store, store, is_used):
            pruned.stores.append(store.name)
    except WorkspaceError as error:
        pruned.left.append(f"{store}: {error.message}")
    except OSError as error:
        pruned.left.append(f"{store}: {error}")


def ended_checks(home: Path, since: float) -> list[RunFolder]:
    """Return the folders of checks that were killed before `since`."""
    folders: list[RunFolder] = []
    for path in (home / CHECKS).glob("[!.]*"):
        folder = RunFolder(path)
        if path.stat().st_mtime < since and not has_writer(folder.events):
            folders.append(folder)
    return folders


def _workspaces(home: Path) -> dict[str, str]:
    """Return the workspace of each run by its summary; empty if it is not known.

    A run without events has no snapshots, and is left out.
    """
    workspaces: dict[str, str] = {}
    for summary in run_summaries(home):
        run_id, workspace = str(summary["run_id"]), str(summary.get("workspace") or "")
        if workspace or not RunFolder(home / RUNS / run_id).is_empty:
            workspaces[run_id] = workspace
    return workspaces


def _users(home: Path, store: str) -> list[str]:
    """Return the runs that use a store, and those whose workspace is not known."""
    runs: list[str] = []
    for run, workspace in _workspaces(home).items():
        if not workspace or store_name(Path(workspace)) == store:
            runs.append(run)
    return runs


def needed_snapshots(home: Path, store: str) -> Callable[[], set[str]]:
    """Return a function that returns every snapshot that a run of the store names.

    It raises OSError for a log that cannot be read.
    """

    def named() -> set[str]:
        snapshots: set[str] = set()
        for run in _users(home, store):
            log = RunFolder(home / RUNS / run).events
            snapshots |= {match.decode() for match in _ID.findall(log.read_bytes())}
        return snapshots

    return named
