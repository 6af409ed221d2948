"""`goal run`, `goal resume` and `goal cancel`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.cli import main, output
from goalrunner.core.errors import ExitCode, RecordError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from goalrunner.core.goal import Goal
    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.ports import Approver
    from goalrunner.core.run_parts import Observer
    from goalrunner.reports.outcome_copy import OutcomeCopy
    from goalrunner.reports.progress import Progress

    Work = Callable[[tuple[Observer, ...], Approver | None], Coroutine[Any, Any, GoalOutcome]]
    from collections.abc import Coroutine

    from goalrunner.core.outcome import GoalOutcome
    from goalrunner.core.ports import Approver
    from goalrunner.core.run_parts import Observer


@dataclass(frozen=True)
class Manner:
    """How a run is shown and what is kept of it, beside the run's own folder."""

    copy: Path | None = None
    """Where a copy of the outcome goes."""
    json: bool = False
    quiet: bool = False
    record: Path | None = None
    """Where the models' replies are recorded."""
    continue_from: str | None = None
    """The run whose conversation goes on in this one."""


def run_goal_file(goal_file: Path | None, overrides: Mapping[str, Any], manner: Manner) -> int:
    """Run a goal; gives the outcome's exit code. `overrides` holds the options that were given, by the goal's dotted keys."""
    goal = _load(goal_file, overrides)
    _check_files(goal_file, goal, manner)
    return _drive(goal, manner, goal_file)


def dry_run(goal_file: Path | None, overrides: Mapping[str, Any], manner: Manner) -> int:
    """Resolve and check a goal and print it; nothing is asked, started or written. Raises GoalError where it does not hold."""
    from goalrunner import app
    from goalrunner.records.run_folder import goal_home
    from goalrunner.reports.summary import json_text
    from goalrunner.reports.tables import resolved_text

    goal = _load(goal_file, overrides)
    _check_files(goal_file, goal, manner)
    agent = app.check(goal, goal_home(os.environ))
    if manner.json:
        output.say(json_text(goal.model_dump(mode="json")))
    else:
        place, columns = _place(goal.workspace.path), output.columns(sys.stdout)
        checked = app.describe_checks(
            goal, Path(goal.workspace.path or ".").resolve(), goal_home(os.environ), os.environ, goal_file
        )
        output.say(resolved_text(goal, agent, place=place, checked=checked, columns=columns))
    return int(ExitCode.COMPLETE)


def _load(goal_file: Path | None, overrides: Mapping[str, Any]) -> Goal:
    from goalrunner.goalfile import load_goal, resolve_goal

    if goal_file is not None:
        return load_goal(goal_file, overrides, os.environ)
    if "objective" not in overrides:
        raise UsageError("goal run needs a goal", _what_to_type())
    return resolve_goal({}, overrides, os.environ)


def _what_to_type() -> str:
    """A run costs money: a file that merely lies here is named, not run."""
    for name in ("goal.toml", "objective.toml"):
        if Path(name).is_file():
            return f"goal run {name}"
    return 'goal run objective.toml, or goal run --objective "..." --validator "pytest -q" --model NAME'


def _check_files(goal_file: Path | None, goal: Goal, manner: Manner) -> None:
    """What is to be written can be, and replaces nothing that the run needs. Raises UsageError."""
    record = manner.record
    if record is not None and os.path.isdir(record):  # noqa: PTH112 - never raises
        raise UsageError(f"--record {record} is a folder", "give the path of a file")
    if manner.copy is None:
        return
    from goalrunner.reports.header import SCRIPTED
    from goalrunner.reports.outcome_copy import check_copy

    taken = {"the goal file": goal_file, "the file of --record": record}
    for who, model in (("agent", goal.agent.model), ("judge", goal.judge.model)):
        if model.startswith(SCRIPTED):
            taken[f"the recording of the {who}"] = Path(model.removeprefix(SCRIPTED))
    check_copy(manner.copy, {what: path for what, path in taken.items() if path is not None})


def _drive(goal: Goal, manner: Manner, goal_file: Path | None) -> int:
    """Run, and let everybody who waits for the outcome have it; gives the exit code."""
    from goalrunner import app
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run

    home = goal_home(os.environ)
    continues = find_run(home, manner.continue_from) if manner.continue_from is not None else None

    def work(observers: tuple[Observer, ...], approver: Approver | None) -> Coroutine[Any, Any, GoalOutcome]:
        return app.arun(
            goal,
            home=home,
            observers=observers,
            record=manner.record,
            goal_file=goal_file,
            approver=approver,
            continues=continues,
        )

    return drive(work, manner)


def drive(work: Work, manner: Manner) -> int:
    """Do the work with progress shown, and let everybody who waits for the outcome have it; gives the exit code."""
    import asyncio

    from goalrunner.cli.approvals import terminal_approver
    from goalrunner.reports.outcome_copy import OutcomeCopy
    from goalrunner.reports.progress import open_progress
    from goalrunner.system.adopted import claim_adopted

    if main.is_program:
        claim_adopted()
    # Before the agent starts: what it puts at the path is not followed.
    copy = OutcomeCopy(manner.copy) if manner.copy is not None else None
    stream = sys.stderr if manner.json else sys.stdout
    with open_progress(stream, quiet=manner.quiet, place=_place) as progress:
        try:
            approver = terminal_approver(stream, progress.suspended)
            coroutine = work((progress,), approver)
            main.look_again()
            outcome = asyncio.run(coroutine)
        except RecordError as error:
            if error.outcome is None:  # the run never began
                raise
            _hand_over(error.outcome, manner, copy, progress, written=_is_written(error.outcome))
            if str(error) not in error.outcome.message:
                raise
            return int(error.exit_code)
        _hand_over(outcome, manner, copy, progress)
    return outcome.exit_code


def _hand_over(
    outcome: GoalOutcome, manner: Manner, copy: OutcomeCopy | None, progress: Progress, *, written: bool = True
) -> None:
    """The last lines, the copy and the JSON, from memory. One that fails keeps no other one back. Raises GoalError.

    `written` says that there is an outcome.json, whose path is told.
    """
    from goalrunner.reports.summary import outcome_text

    text, copied = outcome_text(outcome), ""
    with contextlib.ExitStack() as rest:
        if manner.json:
            rest.callback(output.say, text)
        if copy is not None and copy.is_stream:
            rest.callback(copy.write, text)
        shown = outcome if written else outcome.model_copy(update={"run_path": ""})
        rest.callback(lambda: progress.finish(shown, copied))
        if copy is not None and not copy.is_stream:
            copy.write(text)
            copied = str(copy.path)


def _is_written(outcome: GoalOutcome) -> bool:
    return os.path.isfile(f"{outcome.run_path}/outcome.json")  # noqa: PTH113 - never raises


def _place(workspace: str) -> str:
    """What the header says of a workspace beside its path: "git, clean"."""
    from goalrunner.snapshots.git import describe

    return describe(Path(workspace)).summary


def resume_run(reference: str | None, limits: Mapping[str, Any], manner: Manner, *, note: str = "") -> int:
    """Take a run up again; gives the outcome's exit code. `limits` holds the options that were given, by the goal's keys."""
    from goalrunner import app
    from goalrunner.goalfile import resolve_limits
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run

    raised = resolve_limits(limits)
    home = goal_home(os.environ)
    folder = find_run(home, reference)

    def work(observers: tuple[Observer, ...], approver: Approver | None) -> Coroutine[Any, Any, GoalOutcome]:
        return app.aresume(
            folder,
            home=home,
            limits=raised,
            note=note,
            observers=observers,
            approver=approver,
            on_torn=lambda torn: output.complain(f"Warning: {torn}; they are removed"),
        )

    return drive(work, manner)


def cancel(reference: str | None, *, reason: str = "", json: bool = False) -> int:
    """Cancel a run and print how it ended; gives exit code 0. Raises UsageError for one that is over for good."""
    from goalrunner.app.decisions import cancel_run
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run
    from goalrunner.reports.summary import json_text

    folder = find_run(goal_home(os.environ), reference)
    state = cancel_run(folder, reason)
    if json:
        output.say(json_text({"run_id": folder.run_id, "status": str(state.status), "message": state.message}))
    else:
        output.say(f"{state.status}  {folder.run_id}  {state.message}\n")
    return 0
