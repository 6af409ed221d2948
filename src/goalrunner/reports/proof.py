"""Baseline, protection, second opinion and proof, as steps of the picture. Owns their words; pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from goalrunner import events
from goalrunner.model.verdict import drift_message
from goalrunner.reports import figures, steps
from goalrunner.reports.line import Step

Proving = events.BaselineTaken | events.ProofFinished | events.ConfirmationRecorded
_NAMED = 5


def proof_lines(event: Proving) -> tuple[str, list[Step]]:
    """The label of the row, empty to keep the one there is, and the steps."""
    match event:
        case events.BaselineTaken():
            return "baseline", list(_baseline(event))
        case events.ProofFinished():
            return "proof", list(_proof(event))
        case events.ConfirmationRecorded():
            said = "blocked, says a second opinion: " if event.confirmed else "a second opinion sees a way on: "
            said += event.reason or event.claim
            return "", [Step("judge", "✗", remark=said, tone="bad") if event.confirmed else Step("judge", remark=said)]
        case _:
            assert_never(event)


def protection_lines(event: events.ValidatorsFinished) -> Iterator[Step]:
    """What was touched that is protected, and what the checks themselves changed."""
    for line in event.touched[:_NAMED]:
        yield Step("protect", "!", remark=line, tone="warn")
    if len(event.touched) > _NAMED:
        yield Step("protect", "!", remark=f"and {len(event.touched) - _NAMED} more", tone="warn")
    if event.drift:
        yield Step("drift", "✗", remark=drift_message(event.drift), tone="bad")


def _baseline(event: events.BaselineTaken) -> Iterator[Step]:
    yield from map(steps.validator, event.results)
    if event.reason:
        yield Step("checks", "✗", remark=event.reason, tone="bad")
    elif event.standing == "green":
        yield Step("checks", "✓", remark="already green, in a clean checkout as well", tone="good")


def _proof(event: events.ProofFinished) -> Iterator[Step]:
    yield from map(steps.validator, event.results)
    where = "clean checkout"
    if event.restored:
        where += f", {figures.count(event.restored, 'protected file')} as at the start"
    if event.passed:
        yield Step("proof", "✓", remark=where, tone="good")
    else:
        yield Step("proof", "✗", remark=f"{where}: {event.reason}", tone="bad")
