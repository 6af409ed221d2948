"""Retention: old runs are removed when a new one begins, or has ended.

`[records] keep` of a goal is about the runs of its workspace, and `records="last:20"`
of a program about those that it made with this value. Both remove only runs that have
ended, one after the other and each as a whole, and they never fail a run.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from goalrunner.app.pruning import (
    is_removable,
    last_change,
    needed_snapshots,
    remove_ended,
)
from goalrunner.core.errors import GoalError, WorkspaceError, record_errors, some
from goalrunner.core.goal_tables import RecordsConfig
from goalrunner.records.removal import finish_removals
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.records.run_summaries import read_summary, run_names
from goalrunner.snapshots.store_folder import shrink, store_of

_LOGGER = logging.getLogger("goalrunner")
# Seconds in which a run that begins removes others; the rest is for later runs.
_LONGEST = 1.0
# Runs that a note names.
_NAMED = 5
# Without this form, `.DS_Store` would name the folder of all runs.
_MARK = re.compile(r"\d{20}-(?P<run_id>[a-z0-9][a-z0-9-]*)")


@dataclass(frozen=True)
class Retention:
    """The retention of the runs of a workspace."""

    home: Path
    workspace: Path
    config: RecordsConfig
    environ: Mapping[str, str]
    needed: Collection[str] = ()
    """Ids of runs that are never removed."""
    longest: float = _LONGEST
    """Seconds after which it ends."""

    def apply(self, now: datetime) -> tuple[str, ...]:
        """Remove what is not kept any more; return notes for people. Never raise."""
        if not self.config.keep:
            return ()
        removed: list[str] = []
        try:
            end = time.monotonic() + self.longest
            finish_removals(self.home / RUNS)
            for folder in self._old_runs(now, end):
                if time.monotonic() > end:
                    break
                if remove_ended(self.home, folder):
                    removed.append(folder.run_id)
            if removed:
                self._shrink_store(now, end)
        except (GoalError, OSError, ValueError) as error:
            _LOGGER.warning("old runs could not be removed: %s", error)
        if not removed:
            return ()
        names = some(removed, _NAMED)
        return (f'removed by [records] keep = "{self.config.keep}": {names}',)

    def _old_runs(self, now: datetime, end: float) -> list[RunFolder]:
        """Return the runs of the workspace that need not be kept, oldest first."""
        runs: list[tuple[datetime, RunFolder, Mapping[str, Any]]] = []
        for name in run_names(self.home):
            if time.monotonic() > end:
                # Without all runs, it is not known which are the newest.
                if self.config.newest is not None:
                    return []
                break
            folder = RunFolder(self.home / RUNS / name)
            summary = read_summary(folder)
            if summary.get("workspace") == str(self.workspace):
                runs.append((last_change(summary), folder, summary))
        runs.sort(key=lambda run: run[0])
        if self.config.newest is not None:
            runs = runs[: max(0, len(runs) - self.config.newest)]
        old: list[RunFolder] = []
        for changed, folder, figures in runs:
            age = (now - changed).total_seconds()
            is_old = self.config.seconds is None or age > self.config.seconds
            is_needed = folder.run_id in self.needed or folder.has_copy
            if is_old and not is_needed and is_removable(folder, figures):
                old.append(folder)
        return old

    def _shrink_store(self, now: datetime, end: float) -> None:
        """Remove the snapshots of the workspace that no run names any more.

        Do nothing if a run is active in the workspace.
        """
        store = store_of(self.workspace, self.home)
        remaining = end - time.monotonic()
        # Listing what is needed takes about as long as listing the runs did.
        if not store.is_dir() or remaining < self.longest / 2:
            return
        # What was put aside before a restore stays as long as a run would.
        age = self.config.seconds
        since = now.timestamp() - age if age is not None else 0.0
        needed = needed_snapshots(self.home, store.name)
        arguments = (store, self.workspace, self.environ, needed, since, remaining)
        # An event loop may run in this thread, and `shrink` runs one of its own.
        with contextlib.suppress(WorkspaceError), ThreadPoolExecutor(1) as pool:
            pool.submit(shrink, *arguments).result()


class NewestRuns:
    """The runs that were begun with `records="last:N"` under one home.

    Each has an empty file, whose name sorts by the time of its start. It is made when
    the log is locked, so a run that has a file and no lock is over.
    """

    def __init__(self, home: Path, number: int) -> None:
        self._home, self._number = home, number
        self._folder = home / "newest" / str(number)

    def add(self, run_id: str) -> None:
        """Note a run whose log this process has locked. Raise RecordError."""
        with record_errors(f"cannot write {self._folder}"):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / f"{time.time_ns():020d}-{run_id}").touch(mode=0o600)

    def remove_others(self) -> None:
        """Remove all runs but the newest ones. Never raise."""
        try:
            marks: list[tuple[Path, str]] = []
            for path in sorted(self._folder.iterdir(), reverse=True):
                match = _MARK.fullmatch(path.name)
                if match is not None:
                    marks.append((path, match["run_id"]))
            for mark, run_id in marks[self._number :]:
                folder = RunFolder(self._home / RUNS / run_id)
                if not folder.path.exists():
                    # Removed by a person, or by a process that may have been killed.
                    finish_removals(self._home / RUNS)
                elif not self._remove(folder):
                    continue
                mark.unlink(missing_ok=True)
        except (GoalError, OSError, ValueError) as error:
            _LOGGER.warning("old runs could not be removed: %s", error)

    def _remove(self, folder: RunFolder) -> bool:
        summary = read_summary(folder)
        return is_removable(folder, summary) and remove_ended(self._home, folder)
