"""The scheduler of a batch: it starts, stops and counts the runs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime

from goalrunner.batches.batch_folder import BatchFolder, BatchLog, event_time
from goalrunner.batches.displays import BatchView
from goalrunner.batches.history import (
    BatchEvent,
    BatchResumed,
    BatchState,
    BatchStopped,
    EntryEnded,
    EntrySkipped,
    EntryStarted,
)
from goalrunner.batches.run_process import (
    EntryRun,
    RunProcess,
    RunResult,
    earlier_result,
)
from goalrunner.batches.scheduling import (
    MOST_LOSSES,
    Action,
    Skip,
    StartRun,
    StopBatch,
    StopRun,
    next_actions,
)
from goalrunner.batches.shared_budget import SpentFile
from goalrunner.core.errors import UsageError
from goalrunner.records.run_search import new_run_id

# With 50 runs at work, looks at this interval take less than 2 % of a core.
_INTERVAL = 0.2
"""Seconds between two looks at the runs."""
_GRACE = 10.0
"""Seconds for a run to end after an error of the scheduler; then it is killed."""


class Scheduler:
    """Drives one batch to its end."""

    def __init__(self, folder: BatchFolder, log: BatchLog, view: BatchView) -> None:
        self._folder = folder
        self._log = log
        self._view = view
        self._spent_file = SpentFile(folder.spent, log.state)
        self._pipe_end = -1
        """The end of the pipe that the workers get."""
        self._processes: dict[str, RunProcess] = {}
        self._signals: list[int] = []
        """The signals that this process has received."""
        self._forwarded = 0
        """How many of them were sent on to the runs."""

    @property
    def state(self) -> BatchState:
        return self._log.state

    @property
    def exit_code(self) -> int:
        """128 and the number of a signal that ended the batch; else 0 or 1."""
        if self._signals:
            return 128 + self._signals[0]
        return 0 if self.state.is_success else 1

    async def run(
        self, resumed: BatchResumed | None = None, *, takes_signals: bool = True
    ) -> None:
        """Drive the batch to its end. Raise RecordError if its log cannot be written.

        With `takes_signals`, SIGINT, SIGTERM and SIGHUP end the runs so that they can
        be resumed. So does a cancellation, which is raised when they have ended.
        """
        self._view.begin(self._folder, self.state)
        # Before the event of the resume, which lets failed entries begin again.
        self._settle_earlier_runs()
        if resumed is not None:
            self._append(resumed)
        # Nothing is written to it. Its end, also after kill -9, ends the workers.
        self._pipe_end, writer = os.pipe()
        try:
            with self._receiving_signals() if takes_signals else nullcontext():
                await self._drive()
        finally:
            os.close(writer)
            os.close(self._pipe_end)
            # After an error, such as a full disk, runs may still be at work. The end of
            # the pipe stops them.
            for process in self._processes.values():
                process.wait(_GRACE)
            self._spent_file.close()
        self._view.end(self._folder, self.state)

    async def _drive(self) -> None:
        cancellation: asyncio.CancelledError | None = None
        while True:
            # Results come first: a free job and a reached limit count at this look.
            self._take_results()
            self._take_signals()
            self._take_cancellation()
            spent = self._spent_file.total()
            actions = next_actions(self.state, spent, datetime.now(UTC))
            for action in actions:
                self._perform(action)
            if not actions and not self._processes:
                break
            # After these, further actions follow from the new state without a pause.
            if not any(isinstance(action, Skip | StopBatch) for action in actions):
                self._view.refresh(self.state)
                try:
                    await asyncio.sleep(_INTERVAL)
                except asyncio.CancelledError as error:
                    # The log must have the ends of the runs.
                    cancellation = error
                    self._signals.append(signal.SIGTERM)
        if cancellation is not None:
            raise cancellation

    def _perform(self, action: Action) -> None:
        match action:
            case StartRun(key=key):
                self._start(key)
            case StopRun(key=key):
                self._stop_run(key)
            case Skip(key=key, reason=reason):
                self._append(EntrySkipped(at=event_time(), key=key, reason=reason))
            case StopBatch(reason=reason, ends_runs=ends_runs):
                event = BatchStopped(
                    at=event_time(), reason=reason, ends_runs=ends_runs
                )
                self._append(event)

    def _start(self, key: str) -> None:
        entry = self.state.entries[key]
        objective = entry.entry.objective
        run_id = entry.run_id or new_run_id(self._folder.home, objective)
        # In the log before the process begins: a later scheduler finds its run.
        self._append(EntryStarted(at=event_time(), key=key, run_id=run_id))
        entry_run = EntryRun(self._folder, entry.entry, run_id)
        try:
            self._processes[key] = RunProcess(entry_run, self._pipe_end)
        except UsageError as error:
            # Such as a workspace that is gone: the other goals go on.
            self._end(key, RunResult("failed", str(error)))

    def _stop_run(self, key: str) -> None:
        process = self._processes[key]
        if process.is_stopped:
            return
        stopped = self.state.stopped
        if stopped is not None and stopped.cancelled:
            process.cancel(stopped.reason)
        else:
            process.stop(self._signals[0] if self._signals else signal.SIGTERM)

    def _take_results(self) -> None:
        for key, process in list(self._processes.items()):
            result = process.result()
            if result is not None:
                del self._processes[key]
                self._end(key, result)

    def _end(self, key: str, result: RunResult) -> None:
        """Record how a process ended; one that was killed is started again."""
        is_lost = result.lost and self.state.stopped is None
        if is_lost and self.state.entries[key].losses < MOST_LOSSES:
            self._start(key)
            return
        self._append(
            EntryEnded(
                at=event_time(),
                key=key,
                status=result.status,
                message=result.message,
                stopped=result.interrupted or (result.lost and not is_lost),
            )
        )

    def _settle_earlier_runs(self) -> None:
        """Record the ends of runs that an earlier scheduler did not record.

        A run that has ended may also have been continued by `goal resume`.
        """
        for key, entry in self.state.entries.items():
            if entry.status not in ("running", "ended") or not entry.run_id:
                continue
            result = earlier_result(self._folder, entry)
            if result is None or result.interrupted:
                continue
            if entry.status == "running" or result.status != entry.outcome:
                self._end(key, result)

    def _take_signals(self) -> None:
        """Stop the batch at the first signal; send further ones on to the runs."""
        if not self._signals:
            return
        stopped = self.state.stopped
        if stopped is None or not stopped.ends_runs:
            name = signal.Signals(self._signals[0]).name
            self._append(BatchStopped(at=event_time(), reason=f"interrupted by {name}"))
        for number in self._signals[max(1, self._forwarded) :]:
            # The second one kills the children of a run at once, the third one itself.
            for process in self._processes.values():
                process.stop(number)
        self._forwarded = len(self._signals)

    def _take_cancellation(self) -> None:
        """Stop the batch for good if `goal cancel` has requested it."""
        stopped = self.state.stopped
        if stopped is not None and stopped.cancelled:
            return
        if self._folder.cancellation.exists():
            reason = self._folder.cancellation.read_text(errors="replace")
            self._append(BatchStopped(at=event_time(), reason=reason, cancelled=True))

    @contextmanager
    def _receiving_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers = [signal.SIGINT, signal.SIGTERM]
        # SIGHUP comes when the terminal is closed; `nohup` ignores it on purpose.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, self._signals.append, int(number))
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _append(self, event: BatchEvent) -> None:
        self._log.append(event)
        self._view.changed(self.state, event)
