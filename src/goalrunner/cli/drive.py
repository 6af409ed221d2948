"""Driving a run with its progress shown, and handing over its outcome."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.cli import main, output, runs
from goalrunner.core.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.ports import Approver, Observer
    from goalrunner.reports.narrative import Progress
    from goalrunner.reports.outcome_copy import OutcomeCopy

    Work = Callable[[tuple[Observer, ...], Approver | None], Coroutine[Any, Any, GoalOutcome]]


@dataclass(frozen=True)
class OutputOptions:
    """How a run is shown; `copy` is a copy of the outcome, opened before the agent could redirect it."""

    copy: OutcomeCopy | None = None
    json: bool = False
    quiet: bool = False


def drive(work: Work, options: OutputOptions) -> int:
    """Do the work with its progress shown, hand over the outcome, and return its exit code."""
    import asyncio

    from goalrunner.cli.terminal_approver import terminal_approver
    from goalrunner.reports.narrative import open_progress
    from goalrunner.system.adopted import claim_adopted

    if main.is_program:
        claim_adopted()
    stream = sys.stderr if options.json else sys.stdout
    with open_progress(stream, quiet=options.quiet, place=workspace_state) as progress:
        try:
            coroutine = work((progress,), terminal_approver(stream, progress.suspended))
            main.collect_garbage()
            outcome = asyncio.run(coroutine)
        except RecordError as error:
            if error.outcome is None:  # the run never began
                raise
            written = runs.is_file(f"{error.outcome.run_path}/outcome.json")
            _hand_over(error.outcome, options, progress, written=written)
            if str(error) not in error.outcome.message:
                raise
            return int(error.exit_code)
        _hand_over(outcome, options, progress)
    return outcome.exit_code


def _hand_over(outcome: GoalOutcome, options: OutputOptions, progress: Progress, *, written: bool = True) -> None:
    """Print the last lines and the JSON, and write the copy. If one fails, the others are still done. Raise GoalError.

    `written`: outcome.json exists, so that its path is printed.
    """
    from goalrunner.reports.summary import outcome_text

    text, copied, copy = outcome_text(outcome), "", options.copy
    with contextlib.ExitStack() as rest:
        if options.json:
            rest.callback(output.say, text)
        if copy is not None and copy.is_stream:
            rest.callback(copy.write, text)
        shown = outcome if written else outcome.model_copy(update={"run_path": ""})
        rest.callback(lambda: progress.finish(shown, copied))
        if copy is not None and not copy.is_stream:
            copy.write(text)
            copied = str(copy.path)


def workspace_state(workspace: str) -> str:
    """Return the state of a workspace in git: "git, clean"."""
    from goalrunner.snapshots.git import describe

    return describe(Path(workspace)).summary
