"""Which runs are old enough to go, and removing them. Owns the rule: never a living one, never one that waits."""

from __future__ import annotations

import contextlib
import os
import shutil
from datetime import datetime
from pathlib import Path

from goalrunner.compose.leftovers import clear_own
from goalrunner.errors import UsageError
from goalrunner.eventlog import is_written
from goalrunner.runs import RunFolder, list_runs

WAITING = frozenset({"approval_required", "question_open"})
"""Stop reasons of a run that a person is still to answer."""


def old_runs(home: Path, seconds: float, now: datetime) -> list[RunFolder]:
    """The runs that were last touched longer ago than that, oldest first; living and waiting ones are left out."""
    found = []
    for summary in reversed(list_runs(home)):
        folder = RunFolder(home / "runs" / str(summary["run_id"]))
        if summary.get("stop_reason") in WAITING or is_written(folder.events):
            continue
        if (now - _touched(summary)).total_seconds() > seconds:
            found.append(folder)
    return found


def remove_run(home: Path, folder: RunFolder) -> None:
    """Remove a run's folder and its checkouts. Half a run is never seen. Raises UsageError where it cannot be."""
    gone = folder.path.with_name(f".{folder.run_id}-{os.urandom(4).hex()}")
    try:
        folder.path.rename(gone)
        shutil.rmtree(gone)
    except OSError as error:
        raise UsageError(f"{folder.path} cannot be removed: {error.strerror}", "see who owns it") from error
    clear_own(home, folder.run_id)


def _touched(summary: dict[str, object]) -> datetime:
    for key in ("finished_at", "updated_at", "started_at"):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(str(summary.get(key) or ""))
    raise UsageError(f"run {summary['run_id']} has no time", "remove its folder by hand")
