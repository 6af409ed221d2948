"""Driving a run to its end: signals, cancel requests, outcome."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Self

from goalrunner.app.build import PreparedRun, prepare_run
from goalrunner.app.previous_run import finalize, load_run
from goalrunner.app.resolve import model_names
from goalrunner.app.resuming import Limits, resume_run
from goalrunner.app.run_options import RunOptions
from goalrunner.core.errors import RecordError
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome
from goalrunner.llm import warm_up
from goalrunner.records.reading import TornTail
from goalrunner.records.run_folder import RunFolder

_INTERVAL = 0.25
"""Seconds between two looks for a cancel request: one stat of a file that rarely exists."""
_GRACE = 0.7
"""Seconds that child processes have to end by themselves; a cancelled run ends within two."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""Each ends a run; SIGHUP comes when the terminal is closed."""
_GRACEFUL = 2
"""Signals that end the run in order; the next one ends the process at once."""


class Interruption:
    """SIGINT, SIGTERM and SIGHUP from before a run exists until it has ended, as a context manager."""

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._prepared: PreparedRun | None = None
        self._task: asyncio.Task[GoalOutcome] | None = None
        # `nohup` ignores SIGHUP on purpose.
        ignored = hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._signals = [number for number in _SIGNALS if not (ignored and number.name == "SIGHUP")]

    def watch(self, prepared: PreparedRun, task: asyncio.Task[GoalOutcome]) -> None:
        """Let signals end this run; one that came before ends it now."""
        self._prepared, self._task = prepared, task
        if self._seen:
            self._cancel()

    def __enter__(self) -> Self:
        for number in self._signals:
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, int(number))
        return self

    def __exit__(self, *_: object) -> None:
        for number in self._signals:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _on_signal(self, number: int) -> None:
        self._seen.append(number)
        if len(self._seen) > _GRACEFUL:
            os._exit(128 + number)  # the log is on disk already
        self._cancel()

    def _cancel(self) -> None:
        if self._prepared is not None and self._task is not None:
            self._prepared.run.interrupt(self._seen[0])
            self._task.cancel()  # a second time: children are killed without a time of grace


async def arun(goal: Goal, options: RunOptions) -> GoalOutcome:
    """Run a goal in a new run folder. SIGINT, SIGTERM and SIGHUP end it as cancelled.

    Raise GoalError before the run begins, and RecordError with the `outcome` when the run's own records fail.
    """
    warm_up(model_names(goal))
    with Interruption() as interruption:
        return await finish(prepare_run(goal, options), interruption)


async def aresume(
    folder: RunFolder,
    options: RunOptions,
    limits: Limits,
    *,
    note: str = "",
    on_torn: Callable[[TornTail], None] | None = None,
) -> GoalOutcome:
    """Resume a run and drive it to its end. `note` is a message of the owner to the agent.

    If the run was complete when its process was killed, write and return its outcome. Raise GoalError if it cannot go on: it
    is over for good, another process has it, its log is damaged, its limits are used up.
    """
    loaded = load_run(folder)
    outcome = finalize(folder, loaded, options.observers)
    if outcome is not None and outcome.passed:
        return outcome
    with Interruption() as interruption:
        prepared = await resume_run(folder, loaded, options, limits, note=note, on_torn=on_torn)
        return await finish(prepared, interruption)


async def finish(prepared: PreparedRun, interruption: Interruption | None = None) -> GoalOutcome:
    """Drive a run to its end, write its outcome whatever that is, and return it."""
    task = asyncio.ensure_future(prepared.run.drive())
    await asyncio.sleep(0)  # so that the run has begun before anything can cancel it
    if interruption is not None:
        interruption.watch(prepared, task)
    requests = asyncio.ensure_future(_watch_for_cancel(prepared, task))
    task.add_done_callback(lambda _: requests.cancel())
    with settled(prepared):
        return (await task).model_copy(update={"run_path": str(prepared.folder.path)})


async def _watch_for_cancel(prepared: PreparedRun, task: asyncio.Task[GoalOutcome]) -> None:
    """Wait for a request of `goal cancel`, then cancel the task."""
    request = prepared.folder.cancellation
    while not request.exists():  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(_INTERVAL)
    try:
        reason = str(json.loads(request.read_bytes())["said"])
    except (OSError, ValueError, KeyError, TypeError):
        reason = "cancelled"
    prepared.run.cancel(reason)
    task.cancel()
    await asyncio.sleep(_GRACE)
    task.cancel()  # a second time: children are killed without a time of grace


@contextlib.contextmanager
def settled(prepared: PreparedRun, ended: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Write the outcome and close the files of a run that has `ended`, or that an error breaks off.

    A RecordError gets the outcome, because the outcome's file may not exist.
    """
    try:
        try:
            yield
        except BaseException as error:
            prepared.run.abandon(error)
            with contextlib.suppress(RecordError):  # the first error says more
                prepared.write_outcome()
            prepared.close()
            raise
        if ended():
            try:
                prepared.write_outcome()
            finally:
                prepared.close()
    except RecordError as error:
        error.outcome = prepared.run.outcome(str(prepared.folder.path))
        raise
