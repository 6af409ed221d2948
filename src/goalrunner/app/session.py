"""Driving a run to its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime

from goalrunner.app.build import PreparedRun, prepare_run
from goalrunner.app.previous_run import load_run
from goalrunner.app.pruning import remove_run
from goalrunner.app.resuming import EarlierRun, Limits
from goalrunner.app.run_options import RunOptions
from goalrunner.core.activity import context_with
from goalrunner.core.agent_ports import RoundReply
from goalrunner.core.decision import RunRound
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.events import RunEnded
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome, Usage
from goalrunner.core.run_state import RunState
from goalrunner.records.run_folder import RunFolder

_INTERVAL = 0.25  # seconds between two looks for a cancel request
# Seconds that child processes have to end by themselves; a cancelled run ends within
# two.
_GRACE = 0.7


Watch = Callable[[PreparedRun, asyncio.Task[GoalOutcome]], None]


@contextlib.contextmanager
def ended_by_signals() -> Iterator[Watch]:
    """Let SIGINT, SIGTERM and SIGHUP end a run.

    Call the yielded function with the run and its task when the task exists; a signal
    that came before ends it then.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    # SIGHUP comes when the terminal is closed; `nohup` ignores it on purpose.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    loop = asyncio.get_running_loop()
    received: list[int] = []
    driven: list[tuple[PreparedRun, asyncio.Task[GoalOutcome]]] = []

    def cancel() -> None:
        if not received:
            return
        for prepared, task in driven:
            prepared.run.interrupt(received[0])
            # The second time, children are killed at once.
            task.cancel()

    def on_signal(number: int) -> None:
        received.append(number)
        # The first two end the run in order.
        if len(received) > 2:
            os._exit(128 + number)
        cancel()

    def watch(prepared: PreparedRun, task: asyncio.Task[GoalOutcome]) -> None:
        driven.append((prepared, task))
        cancel()

    for number in numbers:
        loop.add_signal_handler(number, on_signal, int(number))
    try:
        yield watch
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def arun(goal: Goal, options: RunOptions) -> GoalOutcome:
    """Run a goal in a new run folder.

    SIGINT, SIGTERM and SIGHUP end it as cancelled.

    Raise GoalError before the run begins, and RecordError with the `outcome` when the
    run's own records fail.
    """
    with ended_by_signals() as watch:
        prepared = prepare_run(goal, options)
        try:
            return await drive_to_end(prepared, watch)
        finally:
            folder = prepared.records.folder
            if folder is not None and not (options.keeps_run or folder.has_traceback):
                remove_run(options.home, folder)


async def resume_run(
    folder: RunFolder,
    options: RunOptions,
    limits: Limits,
    *,
    note: str = "",
    last_goal_run: datetime | None = None,
    goal: Goal | None = None,
) -> GoalOutcome:
    """Resume a run and drive it to its end.

    `note` is a message of the owner to the agent. `goal` is that of the run with other
    settings of this machine; None: the recorded one.

    If the run is complete, return its outcome, so that a retry is safe. But raise
    UsageError if it ended before `last_goal_run`: a later `goal run` failed to start,
    and the outcome of an earlier run would hide that. Raise GoalError if the run cannot
    be resumed: it was cancelled, another process drives it, its log is damaged, or its
    limits are used up.
    """
    earlier = EarlierRun(folder, load_run(folder), options, limits, goal, note)
    outcome = earlier.completed()
    if outcome is not None:
        _refuse_older(earlier.loaded.state, last_goal_run)
        return outcome
    with ended_by_signals() as watch:
        return await drive_to_end(await earlier.resume(), watch)


def _refuse_older(state: RunState, last_goal_run: datetime | None) -> None:
    """Raise UsageError if a complete run ended before the last `goal run`."""
    if last_goal_run is None:
        return
    if datetime.fromisoformat(state.ended_at) >= last_goal_run:
        return
    run = state.goal.run_id
    raise UsageError(
        f"the last goal run in this folder, at {last_goal_run:%Y-%m-%d %H:%M:%S} UTC, "
        "made no run here; "
        f"run {run} is complete, but ended before",
        f"goal run starts a new run; goal resume {run} prints that outcome",
    )


async def drive_to_end(
    prepared: PreparedRun, watch: Watch = lambda *_: None
) -> GoalOutcome:
    """Drive a run to its end, write its outcome whatever that is, and return it."""
    # What happens between two events is shown by the observers of this run.
    task = asyncio.create_task(
        prepared.run.drive(), context=context_with(prepared.run.recorder.show)
    )
    # The run has to begin before anything can cancel it.
    await asyncio.sleep(0)
    watch(prepared, task)
    requests = asyncio.ensure_future(_watch_for_cancel(prepared, task))
    task.add_done_callback(lambda _: requests.cancel())
    with settled(prepared):
        return await task


async def _watch_for_cancel(
    prepared: PreparedRun, task: asyncio.Task[GoalOutcome]
) -> None:
    """Wait for a request of `goal cancel`, then cancel the task."""
    # Another process makes the request, so there is no event to wait for.
    while not _take_cancellation(prepared):  # noqa: ASYNC110
        await asyncio.sleep(_INTERVAL)
    task.cancel()
    await asyncio.sleep(_GRACE)
    # The second time, children are killed at once.
    task.cancel()


def _take_cancellation(prepared: PreparedRun) -> bool:
    """Return whether `goal cancel` has requested the end of the run.

    If so, the next cancellation of its task ends the run permanently.
    """
    request = prepared.records.cancel_request()
    if request is None:
        return False
    prepared.run.cancel(request)
    return True


@contextlib.contextmanager
def settled(
    prepared: PreparedRun, ended: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """Return a context that writes the outcome of a run and closes its files.

    It does so if `ended()` is true at the end of the context, and after every error,
    which ends the run. A RecordError gets the outcome.
    """
    try:
        try:
            yield
        except BaseException as error:
            prepared.run.abandon(error)
            # An error about the records must not hide the first one.
            with contextlib.closing(prepared), contextlib.suppress(RecordError):
                prepared.write_outcome()
            raise
        if ended():
            with contextlib.closing(prepared):
                prepared.write_outcome()
    except RecordError as error:
        error.outcome = prepared.run.outcome()
        raise


class HostedRun:
    """A run whose rounds the calling program drives."""

    def __init__(
        self, prepared: PreparedRun, number: int = 0, *, records: bool = False
    ) -> None:
        """With `records`, the prompts are recorded here and not by the program."""
        self.prepared = prepared
        self.round = number
        """The round in which the program's agent works; 0 if there is none."""
        self._records = records

    async def next(
        self,
        turn: RoundReply | BaseException | Awaitable[RoundReply] | None = None,
        usage: Usage | None = None,
    ) -> str | GoalOutcome:
        """Check the last turn, if any; return the next prompt, or the outcome.

        `turn` is its reply, or the error that ended it. An awaitable is awaited under
        the deadline. `usage` is what the turn used, if that is not recorded.
        """
        run = self.prepared.run

        async def work() -> RunRound | RunEnded:
            if isinstance(turn, BaseException):
                raise turn
            if turn is not None:
                reply = turn if isinstance(turn, RoundReply) else await turn
                # If the deadline is over, the run ends here.
                await asyncio.sleep(0)
                await run.finish_round(self.round, reply)
            if _take_cancellation(self.prepared):
                raise asyncio.CancelledError
            return await run.advance()

        with settled(self.prepared, ended=lambda: self.round == 0):
            if usage is not None:
                # This is the first event since the agent began to work, so its time
                # counts from here on.
                run.recorder.usage("agent", usage)
            step = await run.guarded(work)
            if isinstance(step, RunEnded):
                self.round = 0
                return run.end(step)
            self.round = step.round
            prompt = run.begin_round(step)
            if self._records:
                run.recorder.message({"role": "user", "content": prompt})
            return prompt

    async def cancel(self, reason: str) -> str | GoalOutcome:
        """End the run as cancelled."""
        self.prepared.run.cancel(reason)
        return await self.next(asyncio.CancelledError())

    def close(self) -> None:
        """Close a run that has not ended. After the end, do nothing."""
        if self.round:
            self.round = 0
            self.prepared.close()
