"""`goal run`: options -> a goal -> one run -> its outcome. Owns how options become a goal; drives nothing itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.cli import output
from goalrunner.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from goalrunner.model.goal import Goal
    from goalrunner.model.outcome import GoalOutcome


@dataclass(frozen=True)
class Manner:
    """How a run is shown and what is kept of it, beside the run's own folder."""

    copy: Path | None = None
    """Where a copy of the outcome goes."""
    json: bool = False
    quiet: bool = False
    record: Path | None = None
    """Where the models' replies are recorded."""


def run_goal_file(goal_file: Path | None, overrides: Mapping[str, Any], manner: Manner) -> int:
    """Run a goal; gives the outcome's exit code. `overrides` holds the options that were given, by the goal's dotted keys."""
    goal = _load(goal_file, overrides)
    if manner.copy is not None:
        from goalrunner.reports.outcome import check_copy

        check_copy(manner.copy)
    return _drive(goal, manner).exit_code


def dry_run(goal_file: Path | None, overrides: Mapping[str, Any], manner: Manner) -> int:
    """Resolve and check a goal and print it; nothing is asked, started or written. Raises GoalError where it does not hold."""
    from goalrunner import api
    from goalrunner.reports.outcome import check_copy, json_text
    from goalrunner.reports.resolved import resolved_text

    goal = _load(goal_file, overrides)
    if manner.copy is not None:
        check_copy(manner.copy)
    api.check(goal)
    if manner.json:
        output.say(json_text(goal.model_dump(mode="json")))
    else:
        output.say(resolved_text(goal, place=_place(goal.workspace.path), columns=output.columns(sys.stdout)))
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


def _drive(goal: Goal, manner: Manner) -> GoalOutcome:
    import asyncio

    from goalrunner import api
    from goalrunner.reports.outcome import outcome_text, write_copy
    from goalrunner.reports.progress import open_progress
    from goalrunner.runs import goal_home

    stream = sys.stderr if manner.json else sys.stdout
    home = goal_home(os.environ)
    with open_progress(stream, quiet=manner.quiet, place=_place) as progress:
        outcome = asyncio.run(api.arun(goal, home=home, observers=(progress,), record=manner.record))
        copied = ""
        try:
            if manner.copy is not None:
                write_copy(manner.copy, outcome_text(outcome))
                copied = str(manner.copy)
        finally:
            progress.finish(outcome, copied)
    if manner.json:
        output.say(outcome_text(outcome))
    return outcome


def _place(workspace: str) -> str:
    """What the header says of a workspace beside its path: "git, clean"."""
    from goalrunner.workspace import describe

    return describe(Path(workspace)).summary
