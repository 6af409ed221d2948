"""The summaries of runs, which `goal list` and `goal status` read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.core.errors import UsageError
from goalrunner.core.run_summary import RUNNING, RunSummary
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.records.writer_lock import has_writer

if TYPE_CHECKING:
    from datetime import datetime

    from goalrunner.core.run_state import RunState

# `datetime` is imported where it is used: it is not needed for most of what uses this
# module, and `goal list` must start fast.

# The event that names the workspace is among them.
_FIRST_EVENTS = 10


def run_summaries(home: Path) -> list[dict[str, Any]]:
    """Return the summary of each run (`summary.json`), newest first.

    A run whose summary is missing or damaged has `run_id`, `status` "unreadable",
    `started_at` (its folder's time), `message`, the `workspace` that its log names, and
    nothing else. Raise UsageError if the runs cannot be listed.
    """
    folders = [RunFolder(home / RUNS / name) for name in run_names(home)]
    return sorted(map(read_summary, folders), key=_start_and_id, reverse=True)


def _start_and_id(summary: Mapping[str, Any]) -> tuple[str, str]:
    return summary["started_at"], summary["run_id"]


def run_names(home: Path) -> list[str]:
    """Return the names of the runs' folders; none before the first run.

    Raise UsageError.
    """
    runs = home / RUNS
    names = []
    try:
        with os.scandir(runs) as entries:
            for entry in entries:
                # Hidden folders are runs that are being removed.
                if not entry.name.startswith(".") and entry.is_dir():
                    names.append(entry.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(
            f"{runs} cannot be read: {reason}",
            "set GOAL_HOME to the folder that holds the runs",
        ) from None
    return names


def read_summary(folder: RunFolder) -> dict[str, Any]:
    """Return the summary of a run, with the folder's name as `run_id`.

    `run_summaries` describes that of a damaged one. The status of a running run whose
    process is gone is "lost".
    """
    message = "summary.json is damaged"
    try:
        summary = json.loads(folder.summary.read_bytes())
        if isinstance(summary, dict) and _has_times(summary):
            summary["run_id"] = folder.run_id
            if summary.get("status") == "running" and not has_writer(folder.events):
                summary.update(_lost(summary))
            return summary
    except OSError as error:
        message = f"summary.json: {(error.strerror or 'cannot be read').lower()}"
        if isinstance(error, FileNotFoundError) and folder.is_empty:
            message = "the run never began"
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    return _unreadable(folder, message)


def _unreadable(folder: RunFolder, message: str) -> dict[str, Any]:
    from datetime import UTC, datetime

    seconds = folder.path.stat().st_mtime if folder.path.exists() else 0
    started_at = datetime.fromtimestamp(seconds, UTC)
    summary = {
        "run_id": folder.run_id,
        "status": "unreadable",
        "started_at": started_at.isoformat(timespec="milliseconds"),
        "message": message,
    }
    workspace = _recorded_workspace(folder)
    if workspace:
        summary["workspace"] = workspace
    return summary


def _has_times(summary: Mapping[str, Any]) -> bool:
    """Return whether a summary has the time of its start.

    All its times must name their distance from UTC, or they cannot be compared.
    """
    from datetime import datetime

    texts = [summary["started_at"]]
    for name in ("updated_at", "finished_at"):
        if summary.get(name):
            texts.append(summary[name])
    return all(datetime.fromisoformat(text).tzinfo is not None for text in texts)


def _recorded_workspace(folder: RunFolder) -> str:
    """Return the workspace that the first events of a run's log name, or ""."""
    try:
        with folder.events.open("rb") as log:
            for _ in range(_FIRST_EVENTS):
                event = json.loads(log.readline())["event"]
                if event["type"] == "run_started":
                    return str(event["workspace"])
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        pass
    return ""


def _lost(summary: dict[str, Any]) -> dict[str, Any]:
    """Return what changes in the summary of a run whose process is gone."""
    # No call runs during a wait.
    if summary.get("waits_for"):
        return {"status": "lost"}
    # A last call may have no record, so tokens and cost are not all.
    counted = summary.get("uncounted_calls")
    return {
        "status": "lost",
        "uncounted_calls": counted + 1 if isinstance(counted, int) else 1,
        "tokens": summary.get("tokens") or None,
        "cost_usd": None,
    }


@dataclass(frozen=True)
class RunPlace:
    """Where a run works, and its goal file; empty: it has none of its own."""

    workspace: str
    goal_file: str


def write_first_summary(
    folder: RunFolder, place: RunPlace, objective: str, now: datetime
) -> None:
    """Write the summary of a run that has no events yet.

    A run that is killed then still has its workspace.
    """
    summary = RunSummary(
        run_id=folder.run_id,
        objective=objective,
        goal_file=place.goal_file,
        workspace=place.workspace,
        path=str(folder.path),
        pid=os.getpid(),
        status=RUNNING,
        started_at=now.isoformat(timespec="milliseconds"),
    )
    folder.write_json(folder.summary, summary.values(), lasting=False)


def summary_writer(
    folder: RunFolder, place: RunPlace | None = None
) -> Callable[[RunState], None]:
    """Return a function that rewrites summary.json from a state.

    It raises RecordError if the file cannot be written. `place` is used for the events
    before the one that names it.
    """

    def save(state: RunState) -> None:
        summary = RunSummary.of(state)
        summary.pid, summary.path = os.getpid(), str(folder.path)
        if place is not None and not summary.workspace:
            summary.workspace, summary.goal_file = place.workspace, place.goal_file
        # The log contains everything, and during the run the next summary follows soon.
        is_last = summary.status != RUNNING
        # The outcome, which is written after the last summary, syncs its name as well.
        folder.write_json(
            folder.summary, summary.values(), lasting=is_last, sync_name=False
        )

    return save
