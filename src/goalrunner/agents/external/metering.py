"""What an agent says that it used, as usage of the run. Owns differences: totals are counted once. Pure."""

from __future__ import annotations

from goalrunner.agents.external.happenings import Reported
from goalrunner.model.usage import Usage


def spent(report: Reported, total: Usage) -> tuple[Usage, Usage]:
    """What is new in a report, and the session's total after it; `total` is the one before.

    A total that has shrunk is that of another session: all of it is new.
    """
    calls = 1 if report.tokens else 0
    if not report.cumulative:
        return _used(report.input, report.output, _price(report), calls), total
    if _shrunk(report, total):
        total = Usage()
    after = total.model_copy(update={"calls": total.calls + 1})
    if report.tokens:
        after = after.model_copy(update={"input_tokens": report.input, "output_tokens": report.output})
    if report.dollars:
        after = after.model_copy(update={"cost_usd": report.cost, "known_cost_usd": report.cost or 0.0})
    new = after.since(total)
    return _used(new.input_tokens or 0, new.output_tokens or 0, new.cost_usd, calls), after


def _used(given: int, made: int, cost: float | None, calls: int) -> Usage:
    """What a report says is told, zeros too."""
    return Usage(input_tokens=given, output_tokens=made, cost_usd=cost, calls=calls, uncounted_calls=0)


def _shrunk(report: Reported, total: Usage) -> bool:
    fewer = report.input < (total.input_tokens or 0) or report.output < (total.output_tokens or 0)
    known = report.cost is not None and total.cost_usd is not None
    cheaper = known and (report.cost or 0.0) < (total.cost_usd or 0.0)
    return (report.tokens and fewer) or (report.dollars and cheaper)


def _price(report: Reported) -> float | None:
    """What it cost. Tokens for no dollars at all are of a model whose price the agent does not know: unknown, not free."""
    unpriced = report.tokens and report.dollars and not report.cost and report.input + report.output > 0
    return None if unpriced else report.cost
