"""The output of `goal check`: whether a run could start, and the results of the validators before any work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from goalrunner.reports.figures import count
from goalrunner.reports.layout import (
    Fact,
    ReportLine,
    output_lines,
)
from goalrunner.reports.short_forms import home_path
from goalrunner.reports.steps import event_lines
from goalrunner.reports.tables import check_lines

if TYPE_CHECKING:
    from goalrunner.app.doctor import BaselineResult, Readiness
    from goalrunner.core.goal import Goal

_STANDINGS = {
    "green": "passed: every validator passes before any work is done",
    "red": "failed: this is what the agent has to change",
    "differs": "not valid: the check environment gives another result",
    "cannot_run": "not valid: a validator cannot run",
}
_RESULT = {
    "name",
    "passed",
    "reason",
    "command",
    "exit_code",
    "duration",
    "summary",
    "feedback",
}


def readiness_value(goal: Goal, readiness: Readiness) -> dict[str, Any]:
    """Return the result of `goal check` as a JSON value."""
    baseline = None
    if readiness.baseline and readiness.baseline.event:
        event = readiness.baseline.event
        results = [
            result.model_dump(mode="json", include=_RESULT) for result in event.results
        ]
        about = {
            "standing": event.standing,
            "reason": event.reason,
            "notes": list(event.notes),
            "age": event.age,
        }
        baseline = {**about, "results": results}
    return {
        "ready": not readiness.problems,
        "problems": list(readiness.problems),
        "goal": goal.model_dump(mode="json"),
        "checks": [finding.value() for finding in readiness.findings],
        "environment": [
            {"label": label, "text": text} for label, text in readiness.lines
        ],
        "baseline": baseline,
    }


def readiness_lines(
    goal: Goal, readiness: Readiness, command: str
) -> Iterator[ReportLine]:
    """Yield the lines of `goal check`; `command` starts the run."""
    yield Fact("goal", goal.objective)
    yield Fact("workspace", home_path(goal.workspace.path))
    yield from check_lines(readiness.findings)
    yield from (
        Fact(label, text, tone="warn" if label == "warning" else "plain")
        for label, text in readiness.lines
    )
    if readiness.baseline is None:
        why = (
            ""
            if readiness.problems
            else ": hidden validators and those in Python run only after a round"
        )
        yield Fact(
            "baseline",
            f"not run{why}" if goal.validators else "none: the goal has no validator",
        )
    else:
        yield from baseline_lines(readiness.baseline)
    if readiness.problems:
        yield Fact(
            "result",
            f"a run cannot start: {count(len(readiness.problems), 'problem')} found",
            tone="bad",
        )
        return
    if (
        readiness.baseline
        and readiness.baseline.is_green
        and not goal.has_judge
        and goal.baseline != "red"
    ):
        if goal.baseline == "complete":
            note = 'a run would be complete at once: the validators pass, and the goal has baseline = "complete"'
        else:
            note = "the validators pass before any work, and there is no judge: they cannot show that the work was done"
        yield Fact("note", note, tone="warn")
    yield Fact("result", f"ready: {command}", tone="good", whole=True)


def baseline_lines(baseline: BaselineResult) -> Iterator[ReportLine]:
    """Yield a line for each validator, the end of the output of red ones, and why a run would end there."""
    if baseline.event is not None:
        yield Fact(
            "baseline", _STANDINGS.get(baseline.event.standing, baseline.event.standing)
        )
        yield from event_lines(
            baseline.event.model_copy(update={"reason": "", "standing": "red"})
        )
        for result in baseline.event.results:
            if not result.passed and result.feedback.strip():
                yield from output_lines("output", result.feedback, tone="bad")
    if baseline.problem:
        yield from output_lines("problem", baseline.problem, tone="bad")
