"""Removing old runs, their checkouts and their snapshots."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from goalrunner.app.location import CHECKOUTS, checkouts_of
from goalrunner.core.errors import RecordError, UsageError, WorkspaceError
from goalrunner.core.events import RunStarted
from goalrunner.core.progress import FINAL
from goalrunner.records.event_log import is_written
from goalrunner.records.reading import read_records
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.run_index import list_runs
from goalrunner.snapshots.objects import store_name
from goalrunner.snapshots.restore import clear
from goalrunner.snapshots.store_gc import finish, last_used, remove_store, remove_whole, shrink, unfinished

_WAITING = ("approval_required", "question_open")
"""Stop reasons of a run that waits for a person."""
_PRUNED = ("runs", "stores")
"""Folders of GOAL_HOME in which folders are removed."""
_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
"""What may be the id of a snapshot: in doubt it is kept, in a damaged log as well."""


def clear_leftovers(home: Path) -> None:
    """Remove the checkouts of runs that no process drives, in the background. Never raise."""
    with contextlib.suppress(OSError):
        folders = list((home / CHECKOUTS).iterdir())
        found = [path.name for path in folders if not is_written(RunFolder(home / "runs" / path.name).events)]
        if found:
            threading.Thread(target=clear_own, args=(home, *found), name="goal-leftovers", daemon=True).start()


def clear_own(home: Path, *run_ids: str) -> None:
    """Remove the checkouts of runs that are over. Never raise."""
    for run_id in run_ids:
        with contextlib.suppress(OSError):
            clear(checkouts_of(home, run_id))


@dataclass(frozen=True)
class OldRun:
    """A run that is old enough to be removed, and how it ended. `workspace` is empty if it is not known."""

    folder: RunFolder
    workspace: str
    why: str
    resumable: bool


def old_runs(home: Path, seconds: float, now: datetime) -> list[OldRun]:
    """Return the runs that ended longer ago than that, oldest first, without those that run or wait for a person."""
    found = []
    for summary in reversed(list_runs(home)):
        folder = RunFolder(home / "runs" / str(summary["run_id"]))
        if summary.get("stop_reason") in _WAITING or is_written(folder.events):
            continue
        if (now - _last_time(summary)).total_seconds() > seconds:
            why, resumable = _ended(summary)
            more = "; could be resumed" if resumable and "whole" not in why else ""
            found.append(OldRun(folder, str(summary.get("workspace") or ""), why + more, resumable))
    return found


def _ended(summary: dict[str, Any]) -> tuple[str, bool]:
    """Return how a run ended, and whether it can be resumed."""
    status, reason = str(summary.get("status")), str(summary.get("stop_reason") or "")
    if status == "unreadable":
        return f"unreadable ({summary.get('message')}); its log may still be whole", True
    if status == "running":
        return "lost: its process is gone", True
    ended = f"{status}, {reason}" if reason and reason not in (status, "satisfied") else status
    return ended, reason not in FINAL


def _last_time(summary: dict[str, Any]) -> datetime:
    for key in ("finished_at", "updated_at", "started_at"):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(str(summary.get(key) or ""))
    raise UsageError(f"run {summary['run_id']} has no time", "remove its folder by hand")


def remove_run(home: Path, folder: RunFolder) -> None:
    """Remove a run's folder, as a whole, and its checkouts. Raise UsageError if it cannot be removed."""
    try:
        remove_whole(folder.path)
    except OSError as error:
        raise UsageError(
            f"{folder.path} cannot be removed: {error.strerror}", "check its owner and permissions"
        ) from error
    clear_own(home, folder.run_id)


def half_removed(home: Path) -> list[Path]:
    """Return the folders of runs and stores whose removal was interrupted."""
    return [path for folder in _PRUNED for path in unfinished(home / folder)]


def finish_removals(home: Path) -> int:
    """Remove those folders, and return how many. Never raise."""
    return sum(finish(home / folder) for folder in _PRUNED)


@dataclass(frozen=True)
class StoresPruned:
    """The names of removed stores, the number of snapshots dropped from others, and why others were left alone."""

    removed: tuple[str, ...] = ()
    dropped: int = 0
    left: tuple[str, ...] = ()


def prune_stores(home: Path, environ: Mapping[str, str], since: float) -> StoresPruned:
    """Remove stores and snapshots that no run needs. What is younger than `since`, in seconds since 1970, stays."""
    removed: list[str] = []
    left: list[str] = []
    dropped = 0
    for store in sorted(path for path in (home / "stores").glob("*") if path.is_dir() and path.name[0] != "."):
        name = store.name
        try:
            workspaces = _workspaces(home)
            if unknown := [run for run, workspace in workspaces.items() if workspace is None]:
                left.append(f"run {unknown[0]} does not name its workspace, so no snapshot was removed")
                break
            found = [Path(user) for user in workspaces.values() if user and store_name(Path(user)) == name]
            if found:
                dropped += shrink(store, found[0], environ, lambda: _named(home, name), since)  # noqa: B023
            elif last_used(store) < since and remove_store(store, store, lambda: bool(_users(home, name))):  # noqa: B023
                removed.append(name)
        except WorkspaceError as error:
            left.append(f"{store}: {error.message}")
    return StoresPruned(tuple(removed), dropped, tuple(left))


def orphans(home: Path, going: Collection[str]) -> tuple[str, ...]:
    """Return the workspaces that have no other runs than these."""
    workspaces = _workspaces(home)
    staying = {workspace for run, workspace in workspaces.items() if run not in going}
    return () if None in staying else tuple(sorted({user for user in workspaces.values() if user} - staying))


def _workspaces(home: Path) -> dict[str, str | None]:
    """Return the workspace of each run; None if it is not known."""
    return {
        str(item["run_id"]): str(item.get("workspace") or "") or _workspace_in(home, str(item["run_id"]))
        for item in list_runs(home)
    }


def _workspace_in(home: Path, run_id: str) -> str | None:
    """Return the workspace that the log of a run names."""
    with contextlib.suppress(RecordError):
        for record in read_records(RunFolder(home / "runs" / run_id).events):
            if isinstance(record.event, RunStarted):
                return record.event.workspace
    return None


def _users(home: Path, store: str) -> list[str]:
    """Return the runs that use a store, with those whose workspace is not known."""
    return [run for run, user in _workspaces(home).items() if user is None or store_name(Path(user)) == store]


def _named(home: Path, store: str) -> set[str]:
    """Return every snapshot that a run of the store names. Raise WorkspaceError for a log that cannot be read."""
    found: set[str] = set()
    for run in _users(home, store):
        log = RunFolder(home / "runs" / run).events
        try:
            with log.open("rb") as file:
                found |= {match.decode() for line in file for match in _ID.findall(line)}
        except OSError as error:
            raise WorkspaceError(
                f"{log} cannot be read: {error.strerror}", "check its owner and permissions"
            ) from error
    return found
