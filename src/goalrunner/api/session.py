"""Driving an assembled run to its end: signals in, outcome.json out. Owns no rule of the loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from goalrunner.compose import Assembly, assemble, goal_models
from goalrunner.compose.models import refuse_unknown_prices
from goalrunner.llm import warm_up
from goalrunner.model.goal import Goal
from goalrunner.model.outcome import GoalOutcome
from goalrunner.ports import Observer

SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def arun(
    goal: Goal, *, home: Path, observers: Sequence[Observer] = (), record: Path | None = None
) -> GoalOutcome:
    """Run a goal in a fresh run folder under `home`. SIGINT and SIGTERM end it as cancelled, a second one at once.

    `record` keeps the models' replies in a file that `scripted/<file>` plays. Raises GoalError before the run begins.
    """
    warm_up((goal.agent.model, goal.judge.model))
    assembly = assemble(goal, home=home, observers=observers, tape=record)
    return await finish(assembly, signals=True)


async def finish(assembly: Assembly, *, signals: bool) -> GoalOutcome:
    """Drive to the end and write the outcome, whatever the end is."""
    task = asyncio.ensure_future(assembly.run.drive())
    try:
        with _interrupting(assembly, task) if signals else contextlib.nullcontext():
            return (await task).model_copy(update={"run_path": str(assembly.folder.path)})
    finally:
        assembly.write_outcome()
        assembly.close()


def check(goal: Goal) -> None:
    """Make the goal's models and validators without asking or running any. Raises GoalError."""
    refuse_unknown_prices(goal, goal_models(goal))


@contextlib.contextmanager
def _interrupting(assembly: Assembly, task: asyncio.Task[GoalOutcome]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def on_signal(number: int) -> None:
        seen.append(number)
        if len(seen) > 2:
            os._exit(128 + number)  # the log is on disk already
        assembly.run.interrupt(seen[0])
        task.cancel()  # a second time: children are killed without a time of grace

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, int(number))
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
