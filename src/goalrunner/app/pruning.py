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


def clear_leftovers(home: Path) -> None:
    """Remove the checkouts of runs that no process works on, in the background. Never raises."""
    with contextlib.suppress(OSError):
        found = [path for path in (home / CHECKOUTS).iterdir() if not _leftovers_is_used(home, path)]
        if found:
            threading.Thread(target=_clear, args=(found,), name="goal-leftovers", daemon=True).start()


def clear_own(home: Path, run_id: str) -> None:
    """Remove a run's checkouts when it is over. Never raises."""
    _clear([checkouts_of(home, run_id)])


def _leftovers_is_used(home: Path, path: Path) -> bool:
    return is_written(RunFolder(home / "runs" / path.name).events)


def _clear(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            clear(path)


WAITING = frozenset({"approval_required", "question_open"})
"""Stop reasons of a run that a person is still to answer."""


_HOMES = ("runs", "stores")
"""Folders of the home in which `goal prune` removes folders."""


@dataclass(frozen=True)
class OldRun:
    """A run that is old enough to go."""

    folder: RunFolder
    workspace: str
    """Where it worked; empty where that is not known."""
    why: str
    """How it ended, in words; of one that could go on, that it could."""
    resumable: bool


def old_runs(home: Path, seconds: float, now: datetime) -> list[OldRun]:
    """The runs that were last touched longer ago than that, oldest first; living and waiting ones are left out."""
    found = []
    for summary in reversed(list_runs(home)):
        folder = RunFolder(home / "runs" / str(summary["run_id"]))
        if summary.get("stop_reason") in WAITING or is_written(folder.events):
            continue
        if (now - _touched(summary)).total_seconds() > seconds:
            why, resumable = _how(summary)
            found.append(OldRun(folder, str(summary.get("workspace") or ""), why, resumable))
    return found


def remove_run(home: Path, folder: RunFolder) -> None:
    """Remove a run's folder and its checkouts. Half a run is never seen. Raises UsageError where it cannot be."""
    try:
        remove_whole(folder.path)
    except OSError as error:
        raise UsageError(f"{folder.path} cannot be removed: {error.strerror}", "see who owns it") from error
    clear_own(home, folder.run_id)


def half_removed(home: Path) -> list[Path]:
    """Folders of runs and stores whose removal was interrupted and is not under way."""
    return [path for folder in _HOMES for path in unfinished(home / folder)]


def finish_removals(home: Path) -> int:
    """Remove those; gives how many. Never raises."""
    return sum(finish(home / folder) for folder in _HOMES)


def _how(summary: dict[str, Any]) -> tuple[str, bool]:
    """How a run ended, and whether `goal resume` might still take it up."""
    status, reason = str(summary.get("status")), str(summary.get("stop_reason") or "")
    if status == "unreadable":
        return f"unreadable ({summary.get('message')}); its log may still be whole", True
    if status == "running":
        return "lost: its process is gone; could be resumed", True
    ended = f"{status}, {reason}" if reason and reason not in (status, "satisfied") else status
    resumable = reason not in {str(final) for final in FINAL}
    return (f"{ended}; could be resumed" if resumable else ended), resumable


def _touched(summary: dict[str, object]) -> datetime:
    for key in ("finished_at", "updated_at", "started_at"):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(str(summary.get(key) or ""))
    raise UsageError(f"run {summary['run_id']} has no time", "remove its folder by hand")


_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
"""Whatever looks like the id of a snapshot: one too many is kept rather than one too few, of a damaged log as well."""


@dataclass(frozen=True)
class StoresPruned:
    """What happened to the stores."""

    removed: tuple[str, ...] = ()
    """Their names, which are those of their folders."""
    dropped: int = 0
    """Snapshots that went from stores that stay."""
    left: tuple[str, ...] = ()
    """Why others were left alone, one sentence each."""


def prune_stores(home: Path, environ: Mapping[str, str], since: float) -> StoresPruned:
    """After runs were removed: what no run needs goes. `since`: what is younger stays, in seconds since 1970."""
    removed: list[str] = []
    left: list[str] = []
    dropped = 0
    for store in sorted(path for path in (home / "stores").glob("*") if path.is_dir() and path.name[0] != "."):
        try:
            users = _users(home)
            if None in users.values():
                lost = next(name for name, user in users.items() if user is None)
                left.append(f"run {lost} does not say where it worked, so no snapshot was removed")
                break
            workspace = next(
                (Path(user) for user in users.values() if user and store_name(Path(user)) == store.name), None
            )
            if workspace is not None:
                dropped += shrink(store, workspace, environ, lambda: _named(home, store.name), since)  # noqa: B023
            elif last_used(store) < since and remove_store(store, store, lambda: _is_used(home, store.name)):  # noqa: B023
                removed.append(store.name)
        except WorkspaceError as error:
            left.append(f"{store}: {error.message}")
    return StoresPruned(tuple(removed), dropped, tuple(left))


def orphans(home: Path, going: Collection[str]) -> tuple[str, ...]:
    """Workspaces of which no run would be left when those of these ids are gone."""
    users = _users(home)
    staying = {user for name, user in users.items() if name not in going}
    lost = {user for name, user in users.items() if name in going and user} - staying
    return () if None in staying else tuple(sorted(user for user in lost if user))


def _users(home: Path) -> dict[str, str | None]:
    """By run: its workspace; None if it is not known."""
    return {
        str(item["run_id"]): str(item.get("workspace") or "") or _said_in(home / "runs" / str(item["run_id"]))
        for item in list_runs(home)
    }


def _said_in(folder: Path) -> str | None:
    """The workspace of a run whose summary does not say it."""
    with contextlib.suppress(RecordError):
        for record in read_records(RunFolder(folder).events):
            if isinstance(record.event, RunStarted):
                return record.event.workspace
    return None


def _is_used(home: Path, name: str) -> bool:
    return any(user is None or store_name(Path(user)) == name for user in _users(home).values())


def _named(home: Path, store: str) -> set[str]:
    """Every snapshot that a run of that store names. Raises WorkspaceError for a log that cannot be read."""
    found: set[str] = set()
    for name, user in _users(home).items():
        if user is None or store_name(Path(user)) == store:
            found |= _ids(RunFolder(home / "runs" / name).events)
    return found


def _ids(log: Path) -> set[str]:
    try:
        with log.open("rb") as file:
            return {match.decode() for line in file for match in _ID.findall(line)}
    except OSError as error:
        raise WorkspaceError(f"{log} cannot be read: {error.strerror}", "see who owns it") from error
