"""Steps of a run as lines: tool calls, validators, verdicts and notices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from goalrunner import events
from goalrunner.model.validation import ValidatorResult
from goalrunner.reports import figures
from goalrunner.reports.line import Step
from goalrunner.reports.terminal_text import cut, one_line

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
