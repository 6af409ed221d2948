"""`goal status TRANSCRIPT`: asks the judge about a saved transcript. Owns what is judged by what; asks through the api."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.cli import garbage, output
from goalrunner.errors import ExitCode, RunNotFound, UsageError

if TYPE_CHECKING:
    from goalrunner.model.goal import Goal
    from goalrunner.model.verdict import GoalVerdict

NOT_COMPLETE = 1
"""Exit code of a verdict that is not complete."""


def print_verdict(
    target: str | None, *, objective: str | None, goal_file: Path | None, judge: str | None, json: bool
) -> int:
    """Judge a transcript and print the verdict; gives the exit code. Raises GoalError, ModelError where no one answers."""
    import asyncio

    from goalrunner import api, compose
    from goalrunner.reports.verdict import verdict_json, verdict_text
    from goalrunner.transcripts import read_transcript

    transcript = _transcript(target)
    goal = _goal(objective, goal_file, judge)
    trail = read_transcript(transcript, deliverable=goal.deliverable)
    garbage.look_again()
    verdict = asyncio.run(api.ajudge_goal(compose.judge_llm(goal), goal, trail))
    output.say(verdict_json(verdict) if json else verdict_text(verdict, columns=output.columns(sys.stdout)))
    return exit_code(verdict)


def exit_code(verdict: GoalVerdict) -> int:
    """0 complete, 1 not, 4 when the judge's answers could not be read: that is no verdict on the work."""
    if verdict.source == "fallback":
        return int(ExitCode.FAILED)
    return int(ExitCode.COMPLETE) if verdict.complete else NOT_COMPLETE


def _transcript(target: str | None) -> Path:
    """The file of that name, or the transcript of the run of that id."""
    if target is None:
        raise UsageError("no transcript is given", "goal status TRANSCRIPT --objective TEXT --judge MODEL")
    path = Path(target)
    if os.path.exists(path):  # noqa: PTH110 - never raises
        return path
    from goalrunner import runs

    try:
        return runs.find_run(runs.goal_home(os.environ), target).transcript
    except RunNotFound:
        raise UsageError(f"{target}: no such file or run", "goal list shows the runs") from None


def _goal(objective: str | None, goal_file: Path | None, judge: str | None) -> Goal:
    """What to judge by. Nothing runs, so the goal needs no agent and no validator; it needs a judge."""
    from goalrunner.goalfile import load_goal, resolve_goal

    if objective is None and goal_file is None:
        raise UsageError("no objective to judge the transcript by", "add --objective TEXT or --goal FILE")
    given = {key: value for key, value in (("objective", objective), ("judge.model", judge)) if value is not None}
    if goal_file is not None:
        goal = load_goal(goal_file, given, os.environ, runnable=False)
    else:
        goal = resolve_goal({}, given, os.environ, runnable=False)
    if not goal.has_judge:
        raise UsageError("no judge is given", "add --judge MODEL, or set GOAL_JUDGE")
    if goal.judge.model == "agent" and not goal.agent.model:
        raise UsageError('judge = "agent" needs a model of the agent', "add --judge MODEL")
    return goal
