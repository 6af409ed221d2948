"""Driving a run to its end: signals, cancel requests, outcome."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from goalrunner.app.build import Assembly, assemble
from goalrunner.app.external_agent import external_named
from goalrunner.app.models import goal_models, model_names, refuse_unfit
from goalrunner.app.preflight import before_the_run
from goalrunner.app.previous_run import past_of, settle
from goalrunner.app.resources import goal_validators
from goalrunner.app.resuming import NewLimits, reassemble
from goalrunner.app.sandbox import place_of, refuse_unfenced
from goalrunner.core.errors import GoalError, RecordError, UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.ports import Approver
from goalrunner.core.run_parts import Observer
from goalrunner.engine.run import Run
from goalrunner.llm import warm_up
from goalrunner.records.reading import TornTail
from goalrunner.records.run_folder import RunFolder
from goalrunner.system.launcher import ProcessLauncher

EVERY = 0.25
"""Seconds between two looks: one stat of a file that is mostly not there."""

GRACE = 0.7
"""Seconds that child processes have to end by themselves; a cancelled run is over within two."""


async def heed(folder: RunFolder, run: Run, task: asyncio.Task[GoalOutcome]) -> None:
    """Wait for a request to end the run, then cancel its task."""
    while not folder.cancellation.exists():  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(EVERY)
    run.cancel(_said(folder))
    task.cancel()
    await asyncio.sleep(GRACE)
    task.cancel()  # a second time: children are killed without a time of grace


def _said(folder: RunFolder) -> str:
    """Who asks, and why, in the words of whoever asked."""
    try:
        return str(json.loads(folder.cancellation.read_bytes())["said"])
    except (OSError, ValueError, KeyError, TypeError):
        return "cancelled"


SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""Each ends a run; SIGHUP comes when the terminal is closed."""
_PATIENCE = 2
"""Signals that are answered in good order; the next one ends the process on the spot."""


class Interruption:
    """SIGINT, SIGTERM and SIGHUP from before a run exists until it has ended."""

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._assembly: Assembly | None = None
        self._task: asyncio.Task[GoalOutcome] | None = None

    def watch(self, assembly: Assembly, task: asyncio.Task[GoalOutcome]) -> None:
        """This is the run that a signal ends; one that came before ends it now."""
        self._assembly, self._task = assembly, task
        if self._seen:
            self._cancel()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Answer signals for a while."""
        loop = asyncio.get_running_loop()
        # `nohup` ignores SIGHUP on purpose, and is obeyed.
        answered = [number for number in SIGNALS if number.name != "SIGHUP" or not _is_ignored(number)]
        for number in answered:
            loop.add_signal_handler(number, self._on_signal, int(number))
        try:
            yield
        finally:
            for number in answered:
                loop.remove_signal_handler(number)

    def _on_signal(self, number: int) -> None:
        self._seen.append(number)
        if len(self._seen) > _PATIENCE:
            os._exit(128 + number)  # the log is on disk already
        self._cancel()

    def _cancel(self) -> None:
        if self._assembly is not None and self._task is not None:
            self._assembly.run.interrupt(self._seen[0])
            self._task.cancel()  # a second time: children are killed without a time of grace


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


async def arun(
    goal: Goal,
    *,
    home: Path,
    observers: Sequence[Observer] = (),
    record: Path | None = None,
    goal_file: Path | None = None,
    approver: Approver | None = None,
    continues: RunFolder | None = None,
) -> GoalOutcome:
    """Run a goal in a fresh run folder under `home`. SIGINT, SIGTERM and SIGHUP end it as cancelled.

    `record` keeps the models' replies in a file that `scripted/<file>` plays; `goal_file` is where the goal was read
    from, and is protected; `approver` is asked where something waits for a person; `continues` is a run whose
    conversation goes on in this one. Raises GoalError before the run begins, and
    RecordError with the `outcome` when the run's own records fail.
    """
    warm_up(model_names(goal))
    interruption = Interruption()
    with interruption.listening():
        with _nothing_run():
            assembly = assemble(
                goal,
                home=home,
                observers=observers,
                tape=record,
                goal_file=goal_file,
                approver=approver,
                continues=continues,
            )
        return await finish(assembly, interruption)


async def aresume(
    folder: RunFolder,
    *,
    home: Path,
    limits: Mapping[str, float | tuple[str, ...] | None],
    note: str = "",
    observers: Sequence[Observer] = (),
    approver: Approver | None = None,
    on_torn: Callable[[TornTail], None] | None = None,
) -> GoalOutcome:
    """Take a run up where it was and drive it to its end. `limits` are new ones, by the names of the outcome's;
    `allow_unenforced` among them names budgets that count from now on what is known alone.

    One that was complete when its process was killed is told, and its outcome written. Raises GoalError where it cannot
    go on: it is over for good, another process has it, its log is damaged, its limits
    are used up.
    """
    past = past_of(folder)
    settled_outcome = settle(folder, past, observers)
    if settled_outcome is not None and settled_outcome.passed:
        return settled_outcome
    interruption = Interruption()
    with interruption.listening():
        resumed = reassemble(
            folder,
            past,
            home=home,
            limits=NewLimits(limits),
            note=note,
            observers=observers,
            approver=approver,
            on_torn=on_torn,
        )
        try:
            await resumed.begin()
        except BaseException:
            resumed.assembly.close()
            raise
        return await finish(resumed.assembly, interruption)


async def finish(assembly: Assembly, interruption: Interruption | None = None) -> GoalOutcome:
    """Drive to the end and write the outcome, whatever the end is."""
    run = assembly.run
    task = asyncio.ensure_future(run.drive())
    await asyncio.sleep(0)  # so that the run has begun before anything can cancel it
    if interruption is not None:
        interruption.watch(assembly, task)
    requests = asyncio.ensure_future(heed(assembly.folder, assembly.run, task))
    task.add_done_callback(lambda _: requests.cancel())
    with settled(assembly):
        return (await task).model_copy(update={"run_path": str(assembly.folder.path)})


@contextlib.contextmanager
def settled(assembly: Assembly, ended: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """A run that has `ended`, or that an error breaks off, has its outcome written and its files closed."""
    try:
        yield
    except BaseException as error:
        assembly.run.abandon(error)
        with contextlib.suppress(RecordError):  # the error that is on its way says more
            assembly.write_outcome()
        _bring_outcome(error, assembly)
        assembly.close()
        raise
    if ended():
        try:
            assembly.write_outcome()
        except RecordError as error:
            _bring_outcome(error, assembly)
            raise
        finally:
            assembly.close()


def _bring_outcome(error: BaseException, assembly: Assembly) -> None:
    """Whoever catches the error gets the outcome with it, for its file may not be there."""
    if isinstance(error, RecordError):
        error.outcome = assembly.run.outcome(str(assembly.folder.path))


@contextlib.contextmanager
def _nothing_run() -> Iterator[None]:
    """What is wrong with a recording that is to be played is the caller's to put right, as nothing has run yet."""
    try:
        yield
    except GoalError as error:
        if type(error) is not GoalError:
            raise
        raise UsageError(error.message, error.hint) from error


def check(goal: Goal, home: Path) -> str:
    """Check a goal as a run does before its baseline, without asking a model or running a validator.

    `home` is where a run would be kept. Return an external agent and its command in words, nothing for the built-in one.
    Raise GoalError.
    """
    with _nothing_run():
        models = goal_models(goal)
    named = external_named(goal, os.environ)
    place = place_of(goal, home, os.environ)
    refuse_unfit(goal, models, home, named)
    refuse_unfenced(goal, place)
    before_the_run(goal, models, named, place)()
    asyncio.run(models.foresee())
    goal_validators(goal, ProcessLauncher(), os.environ)
    return named.words if named else ""
