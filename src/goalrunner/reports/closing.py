"""The last lines of a run: how it ended, what was red, what it took, and where to read on. Owns them; prints nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from goalrunner.model.outcome import GoalOutcome, GoalStatus, StopReason
from goalrunner.model.usage import Usage
from goalrunner.model.validation import ValidatorResult
from goalrunner.reports import figures
from goalrunner.reports.line import Fact, Line, Quoted, Tone
from goalrunner.reports.places import home_path
from goalrunner.reports.redacted import redacted_line
from goalrunner.reports.terminal_text import ELLIPSIS, one_line

_TONES: dict[GoalStatus, Tone] = {
    GoalStatus.COMPLETE: "good",
    GoalStatus.CAPPED: "bad",
    GoalStatus.BLOCKED: "warn",
    GoalStatus.CANCELLED: "warn",
    GoalStatus.FAILED: "bad",
    GoalStatus.RUNNING: "plain",
}

_REVERTED = 5
"""Paths that the command which reverts them names at most."""
_TAIL = 10
"""Lines of a red validator's output that are shown in the end."""


def closing_lines(
    outcome: GoalOutcome, copy: str = "", red: Sequence[ValidatorResult] = (), told: str = ""
) -> Iterator[Line]:
    """Status with its figures; unless complete the message and what is missing; the path of the outcome.

    `copy` is where a copy of the outcome was put, if anywhere; `red` are the validators that failed last;
    `told` is what the judge's last line has said already.
    """
    tone = _TONES[outcome.status]
    yield Fact(outcome.status.value, _figures(outcome), tone)
    if outcome.status is not GoalStatus.COMPLETE:
        yield from (Fact("", line, whole=True) for line in outcome.message.splitlines() if line.strip())
        verdict = outcome.verdict
        by_judge = verdict is not None and (verdict.source == "judge" or not red)
        if verdict is not None and by_judge and verdict.missing not in ("", told):
            yield Fact("missing", verdict.missing)
        for result in red:
            yield from _red(result)
        if outcome.stop_reason is StopReason.INTERRUPTED and outcome.run_id:
            yield Fact("", f"goal resume {outcome.run_id}", whole=True)
    for label in outcome.labels:
        yield Fact("note", label, "warn")
    if outcome.status is GoalStatus.COMPLETE and (paths := _not_verified(outcome)):
        yield Fact(
            "",
            f"goal restore {outcome.run_id} 0 {' '.join(f'--path {shlex.quote(path)}' for path in paths)}",
            whole=True,
        )
    if outcome.redacted:
        yield Fact("redacted", redacted_line(outcome.redacted))
    if outcome.run_path:
        yield Fact("", home_path(f"{outcome.run_path}/outcome.json"), whole=True)
    if copy:
        yield Fact("", home_path(copy), whole=True)


def _not_verified(outcome: GoalOutcome) -> tuple[str, ...]:
    """Return the first paths that validators saw in their original state and that differ in the workspace."""
    return outcome.differing[:_REVERTED] if any(label.startswith("not verified") for label in outcome.labels) else ()


def _red(result: ValidatorResult) -> Iterator[Line]:
    """A validator that failed, and the end of what it printed."""
    yield Fact("red", f"{result.name}: {result.remark}", "bad")
    lines = result.feedback.strip("\n").splitlines()
    if len(lines) == 1 and one_line(lines[0]) in one_line(result.remark):
        return
    if len(lines) > _TAIL:
        yield Quoted(ELLIPSIS)
    yield from (Quoted(line) for line in lines[-_TAIL:])


def _figures(outcome: GoalOutcome) -> str:
    parts = [figures.count(outcome.iterations, "round"), figures.elapsed(outcome.duration)]
    total = sum(outcome.usage.values(), Usage())
    if total.calls or total.tokens or total.uncounted_calls:
        tokens, cost = figures.spent(total)
        parts += [tokens, cost + _of_which(outcome, total)]
    return " · ".join(parts)


def _of_which(outcome: GoalOutcome, total: Usage) -> str:
    judge = outcome.usage.get("judge")
    if judge is None or not judge.calls:
        return ""
    counted = 0 if total.uncounted_calls else total.tokens  # of what is not known there is no share
    return figures.judge_share(judge.tokens, judge.cost_usd, counted, total.cost_usd)
