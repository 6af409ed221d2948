"""Which runs are old enough to go, and removing them. Owns the rule: never a living one, never one that waits.

One that could still go on - its process died, or a limit ended it - is removed as well when it is old, and is said to be
one: nobody has taken it up in all that time.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from goalrunner.compose.leftovers import clear_own
from goalrunner.errors import UsageError
from goalrunner.eventlog import is_written
from goalrunner.runs import RunFolder, list_runs
from goalrunner.state.resumption import FINAL
from goalrunner.workspace.removal import finish, remove_whole, unfinished

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
    """Folders of runs and stores whose removal was killed; nobody removes them now."""
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
