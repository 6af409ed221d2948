"""What an agent says that it used, as usage of the run. Owns differences: totals are counted once. Pure."""

from __future__ import annotations

from goalrunner.agents.external.happenings import Reported
from goalrunner.model.usage import Usage

UNKNOWN = Usage(cost_usd=None, calls=1)
"""A round of which the agent told nothing: it cost something, and nobody knows what."""


def spent(report: Reported, total: Usage) -> tuple[Usage, Usage]:
    """What is new in a report, and the session's total after it; `total` is the one before.

    A total that has shrunk is that of another session: all of it is new.
    """
    calls = 1 if report.tokens else 0
    if not report.cumulative:
        said = Usage(input_tokens=report.input, output_tokens=report.output, cost_usd=_price(report), calls=calls)
        return said, total
    if _shrunk(report, total):
        total = Usage()
    after = total.model_copy(update={"calls": total.calls + 1})
    if report.tokens:
        after = after.model_copy(update={"input_tokens": report.input, "output_tokens": report.output})
    if report.dollars:
        after = after.model_copy(update={"cost_usd": report.cost})
    return after.since(total).model_copy(update={"calls": calls}), after


def _shrunk(report: Reported, total: Usage) -> bool:
    fewer = report.input < total.input_tokens or report.output < total.output_tokens
    known = report.cost is not None and total.cost_usd is not None
    cheaper = known and (report.cost or 0.0) < (total.cost_usd or 0.0)
    return (report.tokens and fewer) or (report.dollars and cheaper)


def _price(report: Reported) -> float | None:
    """What it cost. Tokens for no dollars at all are of a model whose price the agent does not know: unknown, not free."""
    unpriced = report.tokens and report.dollars and not report.cost and report.input + report.output > 0
    return None if unpriced else report.cost
