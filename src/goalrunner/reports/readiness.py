"""The output of `goal check`: whether a run could start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from goalrunner.reports.agent_tables import check_lines
from goalrunner.reports.event_lines import event_lines
from goalrunner.reports.figures import count
from goalrunner.reports.layout import Fact, ReportLine, output_lines
from goalrunner.reports.short_forms import home_path

if TYPE_CHECKING:
    from goalrunner.app.doctor import BaselineResult, Readiness
    from goalrunner.core.goal import Goal

_STANDINGS = {
    "green": "passed: every validator passes before any work is done",
    "red": "failed: this is what the agent has to change",
    "differs": "not valid: the check environment gives another result",
    "cannot_run": "not valid: a validator cannot run",
}
# Fields of a validator's result; the others are for the run itself.
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
    baseline = readiness.baseline
    environment = []
    for label, text in readiness.lines:
        environment.append({"label": label, "text": text})
    return {
        "ready": not readiness.problems,
        "problems": list(readiness.problems),
        "goal": goal.model_dump(mode="json"),
        "checks": [finding.value() for finding in readiness.findings],
        "environment": environment,
        "baseline": _baseline_value(baseline) if baseline else None,
    }


def _baseline_value(baseline: BaselineResult) -> dict[str, Any] | None:
    event = baseline.event
    if event is None:
        return None
    results = []
    for result in event.results:
        results.append(result.model_dump(mode="json", include=_RESULT))
    return {
        "standing": event.standing,
        "reason": event.reason,
        "notes": list(event.notes),
        "age": event.age,
        "results": results,
    }


def readiness_lines(
    goal: Goal, readiness: Readiness, command: str
) -> Iterator[ReportLine]:
    """Yield the lines of `goal check`; `command` starts the run."""
    yield Fact("goal", goal.objective)
    yield Fact("workspace", home_path(goal.workspace.path))
    yield from check_lines(readiness.findings)
    for label, text in readiness.lines:
        yield Fact(label, text, tone="warn" if label == "warning" else "plain")
    if readiness.baseline is None:
        yield Fact("baseline", _why_no_baseline(goal, readiness))
    else:
        yield from baseline_lines(readiness.baseline)
    if readiness.problems:
        problems = count(len(readiness.problems), "problem")
        yield Fact("result", f"a run cannot start: {problems} found", tone="bad")
        return
    note = _note_on_green(goal, readiness)
    if note:
        yield Fact("note", note, tone="warn")
    yield Fact("result", f"ready: {command}", tone="good", whole=True)


def _why_no_baseline(goal: Goal, readiness: Readiness) -> str:
    if not goal.validators:
        return "none: the goal has no validator"
    # A problem above explains it.
    if readiness.problems:
        return "not run"
    return "not run: hidden validators and those in Python run only after a round"


def _note_on_green(goal: Goal, readiness: Readiness) -> str:
    """Return what a green baseline of a goal without a judge means; else empty."""
    is_green = readiness.baseline is not None and readiness.baseline.is_green
    # With a judge, or with baseline = "red", such a run is not complete at once.
    if not is_green or goal.has_judge or goal.baseline == "red":
        return ""
    if goal.baseline == "complete":
        return (
            "a run would be complete at once: the validators pass, and the goal has "
            'baseline = "complete"'
        )
    return (
        "the validators pass before any work, and there is no judge: "
        "they cannot show that the work was done"
    )


def baseline_lines(baseline: BaselineResult) -> Iterator[ReportLine]:
    """Yield a line for each validator, and why a run would end at the baseline.

    Of red validators, the end of their output is shown.
    """
    event = baseline.event
    if event is not None:
        yield Fact("baseline", _STANDINGS.get(event.standing, event.standing))
        # Without the lines about the baseline itself: the line above has them.
        yield from event_lines(
            event.model_copy(update={"reason": "", "standing": "red"})
        )
        for result in event.results:
            # The row of a validator has only its remark.
            if not result.passed and result.feedback.strip():
                yield from output_lines("output", result.feedback, tone="bad")
    if baseline.problem:
        yield from output_lines("problem", baseline.problem, tone="bad")
