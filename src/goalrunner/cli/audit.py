"""`goal status TRANSCRIPT`, `goal verify` and `goal watch`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from goalrunner.cli import main, output
from goalrunner.core.errors import ExitCode, RunNotFound, UsageError

if TYPE_CHECKING:
    from goalrunner.core.goal import Goal
    from goalrunner.core.verdict import GoalVerdict


NOT_COMPLETE = 1
"""Exit code of a verdict that is not complete."""


def print_verdict(
    target: str | None, *, objective: str | None, goal_file: Path | None, judge: str | None, json: bool
) -> int:
    """Judge a transcript and print the verdict; gives the exit code. Raises GoalError, ModelError where no one answers."""
    import asyncio

    from goalrunner import app
    from goalrunner.app.models import judge_llm
    from goalrunner.reports.audit import verdict_json, verdict_text
    from goalrunner.transcripts import read_transcript

    transcript = _transcript(target)
    goal = _goal(objective, goal_file, judge)
    trail = read_transcript(transcript, deliverable=goal.deliverable)
    main.look_again()
    verdict = asyncio.run(app.ajudge_goal(judge_llm(goal), goal, trail))
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
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run

    try:
        return find_run(goal_home(os.environ), target).transcript
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


def verify_run(reference: str | None, *, json: bool = False) -> int:
    """Check a run's folder and print what was checked, or the first thing that does not hold; gives 0, or 4."""
    import asyncio

    from goalrunner.app.verification import verify
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run
    from goalrunner.reports.audit import verification_json, verification_text

    home = goal_home(os.environ)
    done = asyncio.run(verify(find_run(home, reference), home, os.environ))
    output.say(verification_json(done) if json else verification_text(done))
    return int(ExitCode.FAILED if done.broken else ExitCode.COMPLETE)


_EVERY = 0.2
"""Seconds between two looks."""


def watch_run(reference: str | None) -> int:
    """Print what happens in a run until it ends; gives the run's exit code, and 4 where its process is gone."""
    from goalrunner.records.event_log import is_written
    from goalrunner.records.reading import follow_records
    from goalrunner.records.run_folder import goal_home
    from goalrunner.records.run_index import find_run, read_summary
    from goalrunner.reports.show import show_text
    from goalrunner.reports.summary import Summary

    folder = find_run(goal_home(os.environ), reference)

    def wait() -> bool:
        sys.stdout.flush()
        if not is_written(folder.events):
            return False
        time.sleep(_EVERY)
        return True

    pieces = show_text(
        follow_records(folder.events, wait),
        folder=str(folder.path),
        has_outcome=lambda: os.path.isfile(folder.outcome),  # noqa: PTH113 - never raises
        lost=lambda: not is_written(folder.events),
        columns=output.columns(sys.stdout),
    )
    try:
        for piece in pieces:
            output.say(piece)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)  # the run goes on
    return Summary(read_summary(folder)).exit_code
