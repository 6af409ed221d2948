"""A batch with the figures of its runs, each of them read again when it has changed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.history import BatchState, EntryState
from goalrunner.batches.rows import BatchMoment
from goalrunner.core.run_summary import RunSummary
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.records.run_summaries import read_summary


class RunFigures:
    """Reads `summary.json` of each run when its file has changed."""

    def __init__(self, home: Path) -> None:
        self._runs = home / RUNS
        self._read: dict[str, RunSummary] = {}
        # A run replaces the file, so that its inode differs as well as its time.
        self._versions: dict[str, tuple[int, int]] = {}
        self._settled: dict[str, EntryState] = {}

    def of(self, state: BatchState) -> Mapping[str, RunSummary]:
        """Return the figures of the runs that have some, by run id."""
        for entry in state.entries.values():
            # The figures of a run that has ended stay, until it is started again.
            if not entry.run_id or self._settled.get(entry.run_id) is entry:
                continue
            self._update(entry.run_id)
            if entry.status == "ended":
                self._settled[entry.run_id] = entry
        return self._read

    def _update(self, run_id: str) -> None:
        folder = RunFolder(self._runs / run_id)
        try:
            status = folder.summary.stat()
        except OSError:
            # The run has not begun, or its folder was removed.
            return
        version = (status.st_ino, status.st_mtime_ns)
        if self._versions.get(run_id) != version:
            self._versions[run_id] = version
            self._read[run_id] = RunSummary.read(read_summary(folder))


def moment_of(folder: BatchFolder) -> BatchMoment:
    """Return a batch as it is now. Raise RecordError."""
    # Read first: a scheduler that ends meanwhile has written all events by then.
    is_driven = folder.is_driven
    state = folder.state()
    summaries = RunFigures(folder.home).of(state)
    return BatchMoment(state, summaries, is_driven, datetime.now(UTC))
