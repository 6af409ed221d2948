"""`goal canary`, and `goal run --canary`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from goalrunner.cli import completion, goals, main, output, runs
from goalrunner.cli.options import Json
from goalrunner.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from goalrunner.app.canaries import Answer, CanaryReport
    from goalrunner.core.goal import Goal
    from goalrunner.records.run_folder import RunFolder

MISSED = 1
"""Exit code for a judge that accepted a copy."""


def canary(
    target: Annotated[
        str | None,
        Argument(
            metavar="GOAL_FILE|RUN",
            help="A goal file, whose judge gets a built-in example, or a run; default: goal.toml.",
            autocompletion=completion.goal_files,
        ),
    ] = None,
    judge: Annotated[str | None, Option(metavar="NAME", help="The model to test instead of the goal's judge.")] = None,
    json: Json = False,
) -> int:
    """Test whether a judge accepts work without proof.

    The judge audits copies of a run, or of a built-in example, from which the proof was removed: each copy that it calls
    complete is a miss. The exit code is 0 without a miss, 1 with one, 4 if the judge gave no answer that can be read.
    """
    goal, folder = _goal(target, judge)
    report = _question(goal, folder)
    if json:
        output.say_json(_value(report))
    else:
        _print(report)
    if report.misses:
        return MISSED
    return int(ExitCode.FAILED if report.unread else ExitCode.COMPLETE)


def refuse_credulous_judge(goal: Goal) -> None:
    """Ask the goal's judge about the built-in example. Raise GoalError if it accepts a copy without proof."""
    if not goal.has_judge:
        raise UsageError("--canary needs a judge", "add --judge MODEL, or remove --canary")
    from goalrunner.app import canaries

    report = _question(goal, None)
    canaries.refuse_credulous_judge(report)
    if not report.unchanged.accepted:
        output.complain(f"Warning: {_STRICT}")


_STRICT = "the judge also refuses the unchanged copy, so its other answers say little; it may refuse every result"


def _question(goal: Goal, folder: RunFolder | None) -> CanaryReport:
    import asyncio

    from goalrunner.app.canaries import question_judge
    from goalrunner.judge.mutations import MUTATIONS

    output.complain(f"Asking the judge {goal.judge.model} about {len(MUTATIONS)} copies that prove nothing")
    main.collect_garbage()
    return asyncio.run(question_judge(goal, folder))


def _goal(target: str | None, judge: str | None) -> tuple[Goal, RunFolder | None]:
    """Return the goal, whose judge is tested, and the run that is named, if one is. Raise UsageError and GoalFileError."""
    from goalrunner.app.judging import judged_by
    from goalrunner.goalfile import load_goal, resolve_goal

    given: dict[str, Any] = {} if judge is None else {"judge.model": judge}
    folder: RunFolder | None = None
    path = Path(target) if target is not None else goals.of_folder()
    if target is not None and not (runs.is_file(target) or target.endswith(".toml")):
        from goalrunner.app.previous_run import frozen_goal

        folder = runs.find(target)
        goal = frozen_goal(folder, os.environ, runnable=False)
        if judge is not None:
            goal = goal.model_copy(update={"judge": goal.judge.model_copy(update={"model": judge})})
    elif path is not None:
        goal = load_goal(path, given, os.environ, runnable=False)
    else:
        from goalrunner.app.canaries import EXAMPLE

        goal = resolve_goal({"objective": EXAMPLE}, given, os.environ, runnable=False)
    return judged_by(goal), folder


_SAID = {True: "accepts", False: "refuses", None: "not readable"}


def _print(report: CanaryReport) -> None:
    from goalrunner.reports.figures import count, spent
    from goalrunner.reports.tables import table

    rows = [(" ", "COPY", "JUDGE", "AFTER CHECK", "WHAT IS DIFFERENT")]
    for answer in (report.unchanged, *report.answers):
        mark = (
            "·" if answer is report.unchanged else "✗" if answer.accepted else "✓" if answer.accepted is False else "?"
        )
        verdict = "complete" if answer.survived else "not complete"
        rows.append((mark, answer.mutation.name, _SAID[answer.accepted], verdict, answer.mutation.sentence))
    output.say("".join(f"{line}\n" for line in table(rows, output.columns())))
    survived = sum(answer.survived for answer in report.misses)
    missed = f"{count(len(report.misses), 'miss', 'misses')} of {len(report.answers)} copies"
    through = f", {survived} of them complete after the check of the citations" if report.misses else ""
    output.say(f"\n{missed}{through} · {' · '.join(spent(report.usage))}\n")
    if report.unchanged.accepted is False:
        output.complain(f"Note: {_STRICT}")


def _value(report: CanaryReport) -> dict[str, Any]:
    return {
        "judge": report.judge,
        "misses": [answer.mutation.name for answer in report.misses],
        "unreadable": [answer.mutation.name for answer in report.unread],
        "unchanged": _answer(report.unchanged),
        "copies": [_answer(answer) for answer in report.answers],
        "usage": report.usage.model_dump(mode="json"),
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        "name": answer.mutation.name,
        "sentence": answer.mutation.sentence,
        "judge_accepts": answer.accepted,
        "complete_after_check": answer.survived,
        "missing": answer.missing,
    }
