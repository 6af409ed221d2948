"""`goal check` and `goal schema`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from goalrunner.cli import completion, goals, main, output, runs
from goalrunner.cli.options import Json
from goalrunner.core.errors import ExitCode

if TYPE_CHECKING:
    from goalrunner.app.doctor import Baseline, Readiness
    from goalrunner.app.run_options import RunOptions
    from goalrunner.core.goal import Goal
    from goalrunner.reports.layout import Line


def check(
    goal_file: Annotated[
        str | None,
        Argument(
            metavar="GOAL_FILE",
            help="The goal, as TOML; default: goal.toml of this folder.",
            autocompletion=completion.goal_files,
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Check a goal file and run its validators once; spend nothing.

    Names the check environment, protected and ignored files, what is red and why, and whether a run could start: agent, keys,
    judge, sandbox. No model is called. The exit code is 0 if a run could start, 2 for an error in the goal file, else 4.
    """
    goal, path = goals.load(goal_file, {}, runnable=False)
    from goalrunner.app.doctor import foresee_run, has_baseline
    from goalrunner.app.run_options import RunOptions
    from goalrunner.reports.layout import Layout

    options = RunOptions(home=runs.home(), goal_file=path)
    found = foresee_run(goal, options)
    if has_baseline(goal, found):
        found = replace(found, baseline=run_baseline(goal, options))
    if json:
        output.say_json(_value(goal, found))
    else:
        output.say(Layout(output.columns()).text(_lines(goal, found, f"goal run {goal_file or ''}".strip())))
    if found.baseline and found.baseline.interrupted:
        return found.baseline.interrupted
    return found.exit_code if found.problems else int(ExitCode.COMPLETE)


def run_baseline(goal: Goal, options: RunOptions) -> Baseline:
    """Run the validators once, with a line on stderr while a person waits."""
    from goalrunner.app.doctor import take_baseline

    commands = ", ".join(spec.run for spec in goal.validators if spec.run and not spec.hidden)
    output.complain(f"Running the validators once: {commands}")
    main.collect_garbage()
    return take_baseline(goal, options)


def baseline_lines(baseline: Baseline) -> Iterator[Line]:
    """Yield a line for each validator, the end of the output of red ones, and why a run would end there."""
    from goalrunner.reports.layout import Fact, output_lines
    from goalrunner.reports.steps import event_lines

    if baseline.event is not None:
        yield Fact("baseline", _STANDINGS.get(baseline.event.standing, baseline.event.standing))
        yield from event_lines(baseline.event.model_copy(update={"reason": "", "standing": "red"}))
        for result in baseline.event.results:
            if not result.passed and result.feedback.strip():
                yield from output_lines("output", result.feedback, tone="bad")
    if baseline.problem:
        yield from output_lines("problem", baseline.problem, tone="bad")


_STANDINGS = {
    "green": "passed: every validator passes before any work is done",
    "red": "failed: this is what the agent has to change",
    "differs": "not valid: the check environment gives another result",
    "cannot_run": "not valid: a validator cannot run",
}


def _lines(goal: Goal, found: Readiness, command: str) -> Iterator[Line]:
    from goalrunner.reports.figures import count
    from goalrunner.reports.layout import Fact, home_path
    from goalrunner.reports.tables import check_lines

    yield Fact("goal", goal.objective)
    yield Fact("workspace", home_path(goal.workspace.path))
    yield from check_lines(found.checks)
    yield from (Fact(label, text, tone="warn" if label == "warning" else "plain") for label, text in found.lines)
    if found.baseline is None:
        yield Fact("baseline", "not run" if goal.validators else "none: the goal has no validator")
    else:
        yield from baseline_lines(found.baseline)
    if found.problems:
        yield Fact("result", f"a run cannot start: {count(len(found.problems), 'problem')} found", tone="bad")
        return
    if found.baseline and found.baseline.is_green and not goal.has_judge:
        yield Fact("note", "a run would be complete at once: the validators pass, and there is no judge", tone="warn")
    yield Fact("result", f"ready: {command}", tone="good", whole=True)


_RESULT = {"name", "passed", "reason", "command", "exit_code", "duration", "summary", "feedback"}


def _value(goal: Goal, found: Readiness) -> dict[str, Any]:
    event = found.baseline.event if found.baseline else None
    results = [result.model_dump(mode="json", include=_RESULT) for result in event.results] if event else []
    return {
        "ready": not found.problems,
        "problems": list(found.problems),
        "goal": goal.model_dump(mode="json"),
        "checks": [asdict(item) for item in found.checks],
        "environment": [{"label": label, "text": text} for label, text in found.lines],
        "baseline": {"standing": event.standing, "reason": event.reason, "results": results} if event else None,
    }


def schema(
    name: Annotated[
        str, Argument(metavar="[goal|outcome|state|events]", help="What the schema describes; default: goal.")
    ] = "goal",
) -> int:
    """Print the JSON Schema of goal files, outcomes, states or events.

    An editor checks and completes a goal file whose first line is `#:schema PATH`, as `goal init` writes it.
    """
    from goalrunner.core.schemas import json_schema

    output.say_json(json_schema(name))
    return 0
