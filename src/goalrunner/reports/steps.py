"""Tool calls, checks, verdicts and decisions of people as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from goalrunner.core import events
from goalrunner.core.outcome import Usage
from goalrunner.core.verdict import ValidatorResult
from goalrunner.reports import figures
from goalrunner.reports.figures import cut, one_line
from goalrunner.reports.line import ASKED, Fact, Line, Step

_SHORT_NAMES = {"read_file": "read", "write_file": "write", "edit_file": "edit"}
_LONGEST_NAME = 40
_LONGEST_WORDS = 300
"""Columns of an agent's message that are shown."""
_NAMED = 5
"""Processes that are named."""
_WORTH_A_TIME = 0.5
"""Seconds from which the time of a file tool is shown; that of a command always is."""


def short(tool: str) -> str:
    """Return the name of a tool for the column of names."""
    return _SHORT_NAMES.get(tool, tool)


def notices(event: events.RoundFinished | events.UsageRecorded | events.AgentRan) -> Iterator[Step]:
    """Yield what is unusual: a turn that was cut short, calls that were retried."""
    match event:
        case events.RoundFinished():
            if event.reason == "max_steps":
                said = f"turn ended after {figures.count(event.steps, 'model call')}; the limit is [agent] max_steps"
                yield Step("agent", "!", remark=said, tone="warn")
            if event.left:
                yield Step("agent", "!", remark=_left(event.left), tone="warn")
        case events.UsageRecorded():
            if event.usage.retries:
                said = f"model calls were retried {figures.count(event.usage.retries, 'time')} (rate limit or network)"
                yield Step(event.account, "!", remark=said, tone="warn")
        case events.AgentRan():
            if event.note:
                yield Step("agent", "!", remark=event.note, tone="warn")
        case _:
            assert_never(event)


def words(said: str) -> Iterator[Step]:
    """Yield the beginning of what the agent said at the end of its turn, if anything."""
    text = cut(one_line(said), _LONGEST_WORDS)
    if text:
        yield Step("agent", subject="said", remark=text)


def tool(event: events.ToolResultRecorded) -> Step:
    """Return the step of a finished tool call; "reported" marks what only the agent reports."""
    observation = event.observation
    timed = (observation.source == "shell" and not observation.reported_by) or event.duration >= _WORTH_A_TIME
    told = event.summary or ", ".join(observation.facts)
    return Step(
        short(observation.source),
        subject=observation.command,
        time=figures.elapsed(event.duration) if timed else "",
        remark=", ".join(filter(None, (told, "reported"))) if observation.reported_by else told,
    )


def _left(names: Sequence[str]) -> str:
    """Return how many processes an agent left running, and some of their names."""
    named = ", ".join(cut(one_line(name), _LONGEST_NAME) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    was = "which was ended" if len(names) == 1 else "which were ended"
    return f"left {figures.count(len(names), 'process', 'processes')} running, {was}: {named}{more}"


def validator(result: ValidatorResult) -> Step:
    """Return the step of a validator's result."""
    return Step(
        result.name,
        "✓" if result.passed else "✗",
        result.command,
        figures.elapsed(result.duration),
        result.remark,
        "good" if result.passed else "bad",
    )


def verdict(event: events.VerdictRecorded) -> Step:
    """Return the step of the judge's verdict after the check of its citations."""
    answer = event.verdict
    if answer.source == "fallback":
        return Step(
            "judge", "✗", figures.score(0), remark="not complete: the judge's answers could not be read", tone="bad"
        )
    if not answer.complete:
        missing = answer.missing or "not named by the judge"
        # The judge may give a high score while its citations fail the check.
        score = figures.score(answer.score) + (", citation invalid" if event.refusals else "")
        return Step("judge", "✗", score, remark=f"missing: {missing}", tone="bad")
    satisfied = sum(criterion.satisfied for criterion in answer.criteria)
    criteria = f"{satisfied} of {figures.count(len(answer.criteria), 'criterion', 'criteria')}"
    checked = f"{figures.count(event.citations_checked, 'citation')} checked"
    return Step("judge", "✓", figures.score(answer.score), remark=f"{criteria}, {checked}", tone="good")


def audit_failure(event: events.AuditFailed) -> Step:
    """Return the step of an audit that gave no verdict."""
    match event.kind:
        case "parse":
            said = "answer could not be read"
        case "transport":
            said = "judge unavailable"
        case "authentication":
            said = "the provider rejected the API key"
        case _:
            assert_never(event.kind)
    return Step("judge", "!", remark=f"{said}: {event.detail}" if event.detail else said, tone="warn")


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


Proving = events.BaselineTaken | events.ConfirmationRecorded
_PROOF_NAMED = 5


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
    for line in event.protected_changes[:_PROOF_NAMED]:
        yield Step("files", "!", remark=f"validators ignore the agent's version: {line}", tone="warn")
    if len(event.protected_changes) > _PROOF_NAMED:
        yield Step("files", "!", remark=f"and {len(event.protected_changes) - _PROOF_NAMED} more", tone="warn")
    if event.refusal:
        yield Step("checks", "✗", remark=f"{event.refusal}; {event.hint}" if event.hint else event.refusal, tone="bad")
    if event.leaked:
        shown = ", ".join(event.leaked[:_PROOF_NAMED])
        yield Step("checks", "✗", remark=f"the workspace changed while it was checked: {shown}", tone="bad")
    if event.changed_checks:
        paths = ", ".join(event.changed_checks.paths[:_PROOF_NAMED])
        yield Step("checks", "!", remark=f"green only with the agent's version of {paths}", tone="warn")
    for label in event.labels:
        yield Step("note", "!", remark=label, tone="warn")


def _baseline(event: events.BaselineTaken) -> Iterator[Step]:
    yield from map(validator, event.results)
    if event.reason:
        yield Step("checks", "✗", remark=event.reason, tone="bad")
    elif event.standing == "green":
        yield Step("checks", "✓", remark="green before round 1", tone="good")
