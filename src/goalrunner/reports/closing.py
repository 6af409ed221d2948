"""The last lines of a run: how it ended, what it took, and where to read on. Owns them; prints nothing."""

from __future__ import annotations

from collections.abc import Iterator

from goalrunner.model.outcome import GoalOutcome, GoalStatus
from goalrunner.model.usage import Usage
from goalrunner.reports import figures
from goalrunner.reports.line import Fact, Line, Tone
from goalrunner.reports.places import home_path

_TONES: dict[GoalStatus, Tone] = {
    GoalStatus.COMPLETE: "good",
    GoalStatus.CAPPED: "bad",
    GoalStatus.BLOCKED: "warn",
    GoalStatus.CANCELLED: "warn",
    GoalStatus.FAILED: "bad",
    GoalStatus.RUNNING: "plain",
}


def closing_lines(outcome: GoalOutcome, copy: str = "") -> Iterator[Line]:
    """Status with its figures; unless complete the message and what is missing; the path of the outcome.

    `copy` is where a copy of the outcome was put, if anywhere.
    """
    tone = _TONES[outcome.status]
    yield Fact(outcome.status.value, _figures(outcome), tone)
    if outcome.status is not GoalStatus.COMPLETE:
        yield from (Fact("", line, whole=True) for line in outcome.message.splitlines() if line.strip())
        verdict = outcome.verdict
        if verdict is not None and verdict.source == "judge" and verdict.missing:
            yield Fact("missing", verdict.missing)
    if outcome.run_path:
        yield Fact("", home_path(f"{outcome.run_path}/outcome.json"), whole=True)
    if copy:
        yield Fact("", home_path(copy), whole=True)


def _figures(outcome: GoalOutcome) -> str:
    parts = [figures.count(outcome.iterations, "round"), figures.elapsed(outcome.duration)]
    total = sum(outcome.usage.values(), Usage())
    if total.calls or total.tokens:
        parts += [figures.count(total.tokens, "token"), figures.dollars(total.cost_usd) + _of_which(outcome, total)]
    return " · ".join(parts)


def _of_which(outcome: GoalOutcome, total: Usage) -> str:
    judge = outcome.usage.get("judge")
    if judge is None or not judge.calls:
        return ""
    return figures.judge_share(judge.tokens, judge.cost_usd, total.tokens, total.cost_usd)
