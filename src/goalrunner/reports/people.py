"""Lines about approvals, questions, answers and resumed runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from goalrunner import events
from goalrunner.model.usage import Usage
from goalrunner.reports import figures
from goalrunner.reports.line import ASKED, Fact, Line, Step

_MARKS = {"approved": ("✓", "good"), "denied": ("✗", "bad"), "expired": ("✗", "bad")}

People = (
    events.RunResumed
    | events.ApprovalRequested
    | events.ApprovalRecorded
    | events.QuestionOpened
    | events.QuestionAnswered
    | events.MemoryPromoted
)


def people_lines(event: People) -> Iterator[Line]:
    """Yield the lines of an event."""
    match event:
        case events.RunResumed():
            yield from _resumed(event)
        case events.ApprovalRequested():
            yield Step(
                "approval",
                ASKED,
                event.action,
                remark=f"{event.approval_id} waits for a person: {event.rule}",
                tone="warn",
            )
        case events.ApprovalRecorded():
            mark, tone = _MARKS[event.decision]
            by = f" by {event.by}" if event.by else ""
            said = f": {event.reason}" if event.reason else ""
            unguarded = " (unguarded)" if event.decision == "approved" and not event.guarded else ""
            remark = f"{event.decision}{by}{unguarded}{said}"
            yield Step("approval", mark, event.approval_id, remark=remark, tone="good" if tone == "good" else "bad")
        case events.QuestionOpened():
            yield Step("question", ASKED, remark=event.question, tone="warn")
        case events.QuestionAnswered():
            yield Step("answer", "·", event.question, remark=event.answer)
        case events.MemoryPromoted():
            yield Step("memory", "·", event.memory_id, remark=f"{event.kind} from {event.source_ref}")
        case _:
            assert_never(event)


def _resumed(event: events.RunResumed) -> Iterator[Line]:
    plan = event.plan
    yield Fact("resumed", figures.limits(plan.max_iterations, plan.timeout, plan.tokens, plan.cost_usd))
    for said in event.notes:
        yield Fact("", said, tone="warn")
    if event.note:
        yield Fact("", f"note: {event.note}")
    if event.changed:
        shown = ", ".join(event.changed[:5]) + (f" and {len(event.changed) - 5} more" if len(event.changed) > 5 else "")
        yield Fact("", f"changed between sessions: {shown}", tone="warn")
    for account, usage in event.in_flight.items():
        yield from _cut(account, usage)


def _cut(account: str, usage: Usage) -> Iterator[Line]:
    """Yield the usage that is assumed for an interrupted call."""
    if usage.uncounted_calls:
        yield Fact("", f"{account}: the usage of the interrupted turn is unknown", tone="warn")
    elif usage.tokens:
        dollars = f" and {figures.dollars(usage.cost_usd)}" if usage.cost_usd else ""
        said = f"{account}: the interrupted call is estimated at {usage.tokens:,} tokens{dollars}"
        yield Fact("", said, tone="warn")
