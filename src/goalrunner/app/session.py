"""Resuming a run with raised limits, and driving a run to its end: signals, cancel
requests, outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from goalrunner.app.build import (
    PreparedRun,
    cut_usage,
    deadline_at,
    open_run,
    prepare_run,
)
from goalrunner.app.previous_run import (
    NEW_RUN,
    LoadedRun,
    file_hash,
    finalize,
    frozen_goal,
    load_run,
    refuse_final,
)
from goalrunner.app.readiness import readiness, refuse_unready
from goalrunner.app.resolve import resolve
from goalrunner.app.run_options import RunOptions
from goalrunner.app.run_snapshots import remove_run
from goalrunner.core import VERSION
from goalrunner.core.activity import context_with
from goalrunner.core.agent_ports import Rejoining, Resumable, RoundReply
from goalrunner.core.budgets import options_to_lift, shortfall, shortfalls
from goalrunner.core.decision import RunRound
from goalrunner.core.errors import RecordError, UsageError, ways_on
from goalrunner.core.events import RunEnded, RunResumed, RunRules
from goalrunner.core.fold.usage import with_more_usage
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason, Usage
from goalrunner.core.run_state import RunState
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.writer_lock import is_written

_INTERVAL = 0.25  # seconds between two looks for a cancel request
# Seconds that child processes have to end by themselves; a cancelled run ends within
# two.
_GRACE = 0.7


Watch = Callable[[PreparedRun, asyncio.Task[GoalOutcome]], None]


@contextlib.contextmanager
def _signals() -> Iterator[Watch]:
    """Let SIGINT, SIGTERM and SIGHUP end the run that is passed to the yielded
    function, also if they came before.
    """
    # SIGHUP comes when the terminal is closed; `nohup` ignores it on purpose.
    hangup = (
        () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    )
    numbers, loop = (signal.SIGINT, signal.SIGTERM, *hangup), asyncio.get_running_loop()
    seen: list[int] = []
    driven: list[tuple[PreparedRun, asyncio.Task[GoalOutcome]]] = []

    def cancel() -> None:
        for prepared, task in driven if seen else ():
            prepared.run.interrupt(seen[0])
            task.cancel()  # the second time, children are killed at once

    def on_signal(number: int) -> None:
        seen.append(number)
        if len(seen) > 2:  # the first two end the run in order
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
    with _signals() as watch:
        prepared = prepare_run(goal, options)
        try:
            return await drive_to_end(prepared, watch)
        finally:
            if not (options.keeps_run or prepared.folder.has_traceback):
                remove_run(options.home, prepared.folder)


async def resume_run(
    folder: RunFolder,
    options: RunOptions,
    limits: Limits,
    *,
    note: str = "",
    attempt: datetime | None = None,
) -> GoalOutcome:
    """Resume a run and drive it to its end.

    `note` is a message of the owner to the agent.

    If the run is complete, return its outcome, so that a retry is safe; but raise
    UsageError if it ended before `attempt`, when a user last tried to start a run,
    because the outcome is not that of the attempt. Raise GoalError if it cannot be
    resumed: it was cancelled, another process drives it, its log is damaged, or its
    limits are used up.
    """
    earlier = EarlierRun(folder, load_run(folder), options, limits, note=note)
    if (outcome := earlier.completed()) is not None:
        _refuse_older(earlier.loaded.state, attempt)
        return outcome
    with _signals() as watch:
        return await drive_to_end(await earlier.resume(), watch)


def _refuse_older(state: RunState, attempt: datetime | None) -> None:
    """Raise UsageError if a complete run ended before the last attempt to start one."""
    if attempt is None or datetime.fromisoformat(state.ended_at) >= attempt:
        return
    run = state.goal.run_id
    raise UsageError(
        f"the last goal run in this folder, at {attempt:%Y-%m-%d %H:%M:%S} UTC, made "
        "no run here; "
        f"run {run} is complete, but ended before",
        f"goal run starts a new run; goal resume {run} prints that outcome",
    )


async def drive_to_end(
    prepared: PreparedRun, watch: Watch = lambda *_: None
) -> GoalOutcome:
    """Drive a run to its end, write its outcome whatever that is, and return it."""
    task = asyncio.create_task(
        prepared.run.drive(), context=context_with(prepared.run.recorder.show)
    )
    await asyncio.sleep(0)  # so that the run has begun before anything can cancel it
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
    while not _is_cancelled(prepared):  # noqa: ASYNC110
        await asyncio.sleep(_INTERVAL)
    task.cancel()
    await asyncio.sleep(_GRACE)
    task.cancel()  # the second time, children are killed at once


def _is_cancelled(prepared: PreparedRun) -> bool:
    """Return whether `goal cancel` asked for the end of the run; then a cancellation
    ends it permanently.
    """
    request = prepared.folder.cancellation
    if not request.exists():
        return False
    prepared.run.cancel(str(json.loads(request.read_bytes())["said"]))
    return True


@contextlib.contextmanager
def settled(
    prepared: PreparedRun, ended: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """If the run has `ended`, or at an error, write its outcome and close its files.

    A RecordError gets the outcome.
    """
    try:
        try:
            yield
        except BaseException as error:
            prepared.run.abandon(error)
            # The first error says more.
            with (
                contextlib.closing(prepared),
                contextlib.suppress(RecordError),
            ):
                prepared.write_outcome()
            raise
        if ended():
            with contextlib.closing(prepared):
                prepared.write_outcome()
    except RecordError as error:
        error.outcome = prepared.run.outcome()
        raise


class HostedRun:
    """A run whose rounds the calling program drives; `round` is the one in which its
    agent works, 0 if there is none.
    """

    def __init__(
        self, prepared: PreparedRun, number: int = 0, *, records: bool = False
    ) -> None:
        """With `records`, the prompts are recorded here and not by the program."""
        self.prepared, self.round, self._records = prepared, number, records

    async def next(
        self,
        turn: RoundReply | BaseException | Awaitable[RoundReply] | None = None,
        usage: Usage | None = None,
    ) -> str | GoalOutcome:
        """Check the last turn, if any: its reply, or the error that ended it.

        Return the next prompt, or the outcome.

        An awaitable is awaited under the deadline. `usage` is what the turn used, if
        that is not recorded.
        """
        run = self.prepared.run

        async def work() -> RunRound | RunEnded:
            if isinstance(turn, BaseException):
                raise turn
            if turn is not None:
                reply = turn if isinstance(turn, RoundReply) else await turn
                await asyncio.sleep(0)  # a deadline that is over ends the run here
                await run.finish_round(self.round, reply)
            if _is_cancelled(self.prepared):
                raise asyncio.CancelledError
            return await run.advance()

        with settled(self.prepared, ended=lambda: self.round == 0):
            if usage is not None:
                # This is the first event since the agent began to work, so its time
                # counts from here on.
                run.recorder.usage("agent", usage)
            step = await run.guarded(work)
            self.round = step.round if isinstance(step, RunRound) else 0
            if isinstance(step, RunEnded):
                return run.end(step)
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


Limits = Mapping[str, float | tuple[str, ...] | None]
"""New limits by the names of `RunRules`; None lifts one.

`allow_unenforced` names budgets that count only what is known.
"""


@dataclass(frozen=True)
class EarlierRun:
    """A run that is resumed.

    `goal` has the parts that a calling program passed; None: it is read from the run's
    folder.
    """

    folder: RunFolder
    loaded: LoadedRun
    options: RunOptions
    limits: Limits
    goal: Goal | None = None
    note: str = ""

    def completed(self) -> GoalOutcome | None:
        """Return the outcome if the run is complete, and write it if its process was
        killed before it did; else None.
        """
        finalize(self.folder, self.loaded, self.options.observers)
        if self.loaded.state.status is GoalStatus.COMPLETE and not is_written(
            self.folder.events
        ):
            return self.loaded.outcome(self.folder)
        return None

    async def resume(self) -> PreparedRun:
        """Open the run again from its loaded log, and record that it was resumed.

        Raise GoalError.
        """
        loaded, options = self.loaded, self.options
        refuse_final(loaded.state)
        plan = self._plan()
        _refuse_low_limits(loaded.state, plan)
        _refuse_other_start(
            self.folder, loaded, options.handed(self.goal) if self.goal else ()
        )
        goal = self.goal or frozen_goal(self.folder, options.environ, loaded.goal_file)
        resolved = resolve(goal, replace(options, goal_file=loaded.goal_file))
        config = replace(resolved, at_work=loaded.state.agent)
        findings = readiness(config)
        refuse_unready(config, findings)
        prepared = open_run(config, findings, self.folder, loaded)
        try:
            config.refuse_shared_workspace()
            await self._go_on(prepared, plan)
        except BaseException:
            prepared.close()
            raise
        return prepared

    def _plan(self) -> RunRules:
        """Return the rules of the run with the new limits."""
        plan = self.loaded.state.plan
        limits = dict(self.limits)
        allowed = limits.pop("allow_unenforced", None)
        if isinstance(allowed, tuple):
            limits["unenforced"] = tuple(dict.fromkeys((*plan.unenforced, *allowed)))
        return plan.model_copy(update=limits)

    async def _go_on(self, prepared: PreparedRun, plan: RunRules) -> None:
        """Give the conversation its chat, and record that the run was resumed."""
        run, config, folder = prepared.run, prepared.config, self.folder
        earlier = run.resumption
        if isinstance(run.conversation, Resumable) and earlier.chat:
            run.conversation.load(earlier.chat, earlier.unfinished, run.recorder)
        has_session = earlier.unfinished.session is not None
        cut = (
            {}
            if self.options.live
            else cut_usage(config, run.state, earlier.chat, has_session)
        )
        # Only a model of this process can estimate the call that was cut.
        if self.loaded.state.external:
            _refuse_low_limits(with_more_usage(run.state, cut), plan)
        for observer in self.options.observers:
            if isinstance(observer, Rejoining):
                observer.on_state(run.state)
        seconds = (
            None if plan.timeout is None else max(0.0, plan.timeout - run.state.elapsed)
        )
        is_new_sandbox = config.sandbox_name != self.loaded.state.sandbox
        resumed = RunResumed(
            plan=plan,
            version=VERSION,
            note=self.note,
            in_flight=cut,
            deadline_at=deadline_at(run.parts.clock.now(), seconds),
            notes=(
                *(config.sandbox.notes() if is_new_sandbox else ()),
                *prepared.notes,
            ),
            sandbox=config.sandbox_name,
        )
        try:
            await run.resume(resumed)
        finally:
            # Even without a new summary.
            if run.state.status is GoalStatus.RUNNING and folder.outcome.exists():
                folder.outcome.replace(folder.earlier_outcome)


def _refuse_low_limits(state: RunState, plan: RunRules) -> None:
    """Raise UsageError if a limit would stop the run at once, naming the options that
    raise all of them.
    """
    run, rounds, total = state.goal.run_id, plan.max_iterations, state.total
    planned, reason = state.replace(plan=plan), ""
    if (
        state.stop_reason is StopReason.MAX_ITERATIONS
        and rounds is not None
        and rounds <= state.iterations
    ):
        why = (
            "the only round is used"
            if rounds == 1
            else f"{state.iterations} of {rounds} rounds are used"
        )
        reason = "max_iterations"
    elif plan.timeout is not None and plan.timeout <= state.elapsed:
        why = f"{state.elapsed:.0f} s of {plan.timeout:g} s are used"
    elif (found := shortfall(planned)) and found.unknown:
        raise UsageError(
            f"run {run} is capped: {found.words}", options_to_lift(planned)
        )
    elif found:
        why = found.words
    else:
        return
    used = {"max_iterations": state.iterations, "timeout": state.elapsed}
    used |= {"tokens": total.tokens, "cost_usd": total.known_cost_usd}
    unknown = [found.budget for found in shortfalls(planned) if found.unknown]
    option = ways_on(vars(plan), used, reason, unknown)[-1]
    raise UsageError(
        f"run {run} is capped: {why}", f"raise it: goal resume {run} {option}"
    )


def _refuse_other_start(
    folder: RunFolder, loaded: LoadedRun, handed: Sequence[str]
) -> None:
    """Raise UsageError if a part that a program passed is missing, RecordError if the
    record of the start was changed.
    """
    started, state = loaded.started, loaded.state
    if missing := ", ".join(name for name in started.handed if name not in handed):
        raise UsageError(
            f"this run was started by a program that passed its {missing}; only that "
            "program can resume it",
            f"resume it there: goalrunner.resume(run, conversation), or {NEW_RUN}",
        )
    if file_hash(folder.goal_file) != started.goal_sha256:
        raise RecordError(
            f"{folder.goal_file} was changed after the run began", NEW_RUN
        )
    for name, digest in state.kept.items():
        if file_hash(folder.start / name) != digest:
            raise RecordError(
                f"{folder.start / name} differs from what was recorded at the start of "
                "the run",
                NEW_RUN,
            )
