"""The process of a run, which the scheduler starts and ends, and its result."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from goalrunner.batches.batch_folder import BatchFolder
from goalrunner.batches.history import EntryState
from goalrunner.batches.plan import BatchEntry
from goalrunner.batches.worker import command_line
from goalrunner.core.errors import UsageError, one_line, os_errors
from goalrunner.core.run_summary import RunSummary
from goalrunner.records.run_folder import RUNS, RunFolder
from goalrunner.records.run_summaries import read_summary

_SIGNALS = {128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP}
_END_OF_OUTPUT = 4096
"""Bytes at the end of a worker's output in which its error is looked for."""
_LONGEST_ERROR = 400


@dataclass(frozen=True)
class RunResult:
    """How a process of a run ended."""

    status: str
    """That of the outcome; "failed" without one."""
    message: str = ""
    interrupted: bool = False
    """Whether a signal ended the run, so that it can be resumed."""
    lost: bool = False
    """Whether the process was killed, so that the run is to be resumed at once."""


@dataclass(frozen=True)
class EntryRun:
    """An entry of a batch, and the run that works on it."""

    batch: BatchFolder
    entry: BatchEntry
    run_id: str

    @property
    def run(self) -> RunFolder:
        return RunFolder(self.batch.home / RUNS / self.run_id)

    @property
    def output(self) -> Path:
        """What the process prints."""
        return self.batch.output(self.entry.key)


class RunProcess:
    """A running worker."""

    def __init__(self, entry_run: EntryRun, scheduler_pipe: int) -> None:
        """Start it. `scheduler_pipe` ends for it when the scheduler does.

        Raise UsageError.
        """
        self._entry_run = entry_run
        self.is_stopped = False
        """Whether it was asked to end."""
        key = entry_run.entry.key
        with os_errors(f"{entry_run.entry.name} cannot be started", "", UsageError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            output = os.open(entry_run.output, flags, 0o600)
            try:
                self._process = subprocess.Popen(
                    command_line(entry_run.batch, key, entry_run.run_id),
                    cwd=entry_run.entry.workspace,
                    stdin=scheduler_pipe,
                    stdout=output,
                    stderr=output,
                    # Ctrl-C in the terminal reaches the scheduler alone.
                    start_new_session=True,
                )
            finally:
                os.close(output)

    def stop(self, number: int) -> None:
        """Send a signal that ends the run."""
        self.is_stopped = True
        self._process.send_signal(number)

    def wait(self, seconds: float) -> None:
        """Wait for the end of the process, and kill it after so many seconds."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def cancel(self, reason: str) -> None:
        """End the run for good; one that has not begun is stopped."""
        run = self._entry_run.run
        if run.is_empty:
            self.stop(signal.SIGTERM)
            return
        self.is_stopped = True
        run.write_json(run.cancellation, {"said": reason})

    def result(self) -> RunResult | None:
        """Return the result; None while the process works."""
        code = self._process.poll()
        if code is None:
            return None
        ended = _ended_run(self._entry_run.run)
        # An outcome with another exit code is that of an earlier process.
        if ended is not None and ended.exit_code == code:
            return _result_of(ended)
        # The batch has ended it before it had an outcome.
        if self.is_stopped:
            return RunResult("cancelled", interrupted=True)
        # Killed, such as for lack of memory: its log is whole, and the run can go on.
        if code < 0:
            name = signal.Signals(-code).name
            return RunResult("failed", f"its process was ended by {name}", lost=True)
        if code in _SIGNALS:
            return RunResult("cancelled", "interrupted by a signal", interrupted=True)
        return RunResult("failed", self._error() or f"its process ended with {code}")

    def _error(self) -> str:
        """Return the error that the process printed last; empty if there is none."""
        try:
            with self._entry_run.output.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _END_OF_OUTPUT))
                text = file.read().decode("utf-8", errors="replace")
        except OSError:
            return ""
        _, mark, error = text.rpartition("Error: ")
        # The lines after the first one say what to type.
        return one_line(error.partition("\n")[0], _LONGEST_ERROR) if mark else ""


def earlier_result(batch: BatchFolder, entry: EntryState) -> RunResult | None:
    """Return how the run of an entry ended since its last start.

    None if it has not ended: its process was killed, or still works.
    """
    ended = _ended_run(EntryRun(batch, entry.entry, entry.run_id).run)
    if ended is None or not ended.finished_at:
        return None
    started_at = datetime.fromisoformat(entry.started_at)
    # This outcome is older than the last start, which resumed the run.
    if datetime.fromisoformat(ended.finished_at) < started_at:
        return None
    return _result_of(ended)


def _ended_run(run: RunFolder) -> RunSummary | None:
    """Return the figures of a run that has ended; None for any other one."""
    if not run.outcome.exists():
        return None
    summary = RunSummary.read(read_summary(run))
    return summary if summary.exit_code is not None else None


def _result_of(ended: RunSummary) -> RunResult:
    return RunResult(
        ended.status,
        one_line(ended.message),
        interrupted=ended.stop_reason == "interrupted",
    )
