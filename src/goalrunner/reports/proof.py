"""Baseline, protection and second opinion, as lines of the terminal output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from goalrunner import events
from goalrunner.reports import steps
from goalrunner.reports.line import Step

Proving = events.BaselineTaken | events.ConfirmationRecorded
_NAMED = 5


def proof_lines(event: Proving) -> tuple[str, list[Step]]:
    """Return the label of the row (empty: unchanged) and the steps."""
    match event:
        case events.BaselineTaken():
            return "baseline", list(_baseline(event))
        case events.ConfirmationRecorded():
            said = (
                "a second opinion confirms that the goal is blocked: "
                if event.confirmed
                else "a second opinion: not blocked: "
            )
            said += event.reason or event.claim
            return "", [Step("judge", "✗", remark=said, tone="bad") if event.confirmed else Step("judge", remark=said)]
        case _:
            assert_never(event)


def protection_lines(event: events.ValidatorsFinished) -> Iterator[Step]:
    """Yield changed protected files, why results do not count, and labels."""
    for line in event.protected_changes[:_NAMED]:
        yield Step("files", "!", remark=f"validators ignore the agent's version: {line}", tone="warn")
    if len(event.protected_changes) > _NAMED:
        yield Step("files", "!", remark=f"and {len(event.protected_changes) - _NAMED} more", tone="warn")
    if event.refusal:
        yield Step("checks", "✗", remark=f"{event.refusal}; {event.hint}" if event.hint else event.refusal, tone="bad")
    if event.leaked:
        shown = ", ".join(event.leaked[:_NAMED])
        yield Step("checks", "✗", remark=f"the workspace changed while it was checked: {shown}", tone="bad")
    if event.changed_checks:
        paths = ", ".join(event.changed_checks.paths[:_NAMED])
        yield Step("checks", "!", remark=f"green only with the agent's version of {paths}", tone="warn")
    for label in event.labels:
        yield Step("note", "!", remark=label, tone="warn")


def _baseline(event: events.BaselineTaken) -> Iterator[Step]:
    yield from map(steps.validator, event.results)
    if event.reason:
        yield Step("checks", "✗", remark=event.reason, tone="bad")
    elif event.standing == "green":
        yield Step("checks", "✓", remark="green before round 1", tone="good")
