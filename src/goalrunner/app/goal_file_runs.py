"""Runs of goal files by a calling program, as `goal run` makes them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from goalrunner.app.build import prepare_run
from goalrunner.app.library import goal_and_options, interrupting, run_blocking
from goalrunner.app.project import installed_agents, only_signed_in
from goalrunner.app.run_options import RunKeywords
from goalrunner.app.session import drive_to_end
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.outcome import GoalOutcome
from goalrunner.goalfile.loading import load_goal, with_default_wait
from goalrunner.goalfile.place import PYPROJECT


def run_goal_file(
    path: Path | str = "goal.toml", **options: Unpack[RunKeywords]
) -> GoalOutcome:
    """Run `arun_goal_file`, with the same arguments, in an event loop of its own.

    Raise UsageError inside a running event loop, and KeyboardInterrupt after the run if
    Ctrl-C ended it.

    >>> from goalrunner import run_goal_file
    >>> outcome = run_goal_file("goal.toml", max_iterations=5)  # doctest: +SKIP
    >>> print(outcome.status, outcome.message)  # doctest: +SKIP
    """
    work = arun_goal_file(path, **options)
    return interrupting(run_blocking(work, "run_goal_file", "arun_goal_file"))


async def arun_goal_file(
    path: Path | str = "goal.toml", **options: Unpack[RunKeywords]
) -> GoalOutcome:
    """Run a goal file with the agent that it names, and return the outcome.

    The result is that of `goal run PATH`, with the same defaults: the environment
    variables GOAL_AGENT, GOAL_MODEL and GOAL_JUDGE, the agent that is installed if the
    file names none, and a wait of up to 6 hours for usage limits. Nothing is printed,
    no signal is handled, and no person is asked without an `approver`. The keywords are
    those of `run_goal`, and each replaces its own key of the file; `validators` are
    added to those of the file.

    Raise GoalFileError with file, line and column of all problems; UsageError for a
    wrong keyword, or a file with `isolate`, whose run needs a process of its own; and
    RecordError. How the agent and its models fail is in the outcome.

    >>> import asyncio
    >>> from goalrunner import arun_goal_file
    >>> outcome = asyncio.run(arun_goal_file("goal.toml"))  # doctest: +SKIP
    """
    file = Path(path)
    goal, run_options = goal_and_options(_loaded(file, options), None, options)
    if goal.workspace.isolate:
        raise UsageError(
            f"{file} has isolate, and a run in a copy needs a process of its own",
            "call run_batch or best_of with the goal file, which work in copies, or "
            "remove isolate",
        )
    is_own_file = file.name != PYPROJECT
    run_options = replace(
        run_options, goal_file=file if is_own_file else None, reuses_baseline=True
    )
    return await drive_to_end(prepare_run(goal, run_options))


def _loaded(path: Path, keywords: RunKeywords) -> Goal:
    """Return the goal of a file with the defaults of `goal run`."""
    goal = load_goal(path, runnable=False)
    values: dict[str, str] = {}
    if not (goal.agent.model or "use" in goal.agent.model_fields_set):
        # A library asks no person, and chooses as a command without a terminal.
        agent = only_signed_in(installed_agents(os.environ))
        if agent is not None:
            values["agent.use"] = agent.name
    goal = with_default_wait(load_goal(path, values))
    has_default_timeout = "timeout" not in goal.model_fields_set
    has_budget = any(keywords.get(name) for name in ("tokens", "cost_usd"))
    if has_default_timeout and has_budget:
        # An external agent has a timeout by default only without a budget.
        return goal.model_copy(update={"timeout": None})
    return goal
