"""The usage that an external agent reports, and what its reports omit."""

from __future__ import annotations

from collections.abc import Sequence

from goalrunner.agents.parser import UsageReported
from goalrunner.core.outcome import Usage


def usage_delta(report: UsageReported, total: Usage) -> tuple[Usage, Usage]:
    """Return the new usage in a report, and the session's total after it.

    `total` is the one before the report. A total that has decreased belongs to another
    session, and all of it is new.
    """
    if not report.cumulative:
        return _of_turn(report), total
    if _is_smaller(report, total):
        # The agent began another session.
        total = Usage()
    # The report may be about tokens or dollars alone; the other total stays.
    changes: dict[str, float | None] = {"calls": total.calls + 1}
    if report.tokens:
        changes["input_tokens"] = report.input
        changes["output_tokens"] = report.output
    if report.dollars:
        changes["cost_usd"] = report.cost
        changes["known_cost_usd"] = report.cost or 0.0
    after = total.model_copy(update=changes)
    new = after.since(total)
    tokens = (new.input_tokens or 0, new.output_tokens or 0)
    return _usage(report, *tokens, new.cost_usd), after


def _of_turn(report: UsageReported) -> Usage:
    """Return the usage in a report that is not about the whole session."""
    cost = report.cost
    # If tokens cost nothing, the agent does not know the price of its model.
    has_both = report.tokens and report.dollars
    if has_both and not cost and report.input + report.output > 0:
        cost = None
    return _usage(report, report.input, report.output, cost)


def _usage(
    report: UsageReported, input_tokens: int, output_tokens: int, cost: float | None
) -> Usage:
    """Return the usage of one report; a report about dollars alone is no call."""
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=cost,
        calls=int(report.tokens),
        uncounted_calls=0,
    )


def _is_smaller(report: UsageReported, total: Usage) -> bool:
    """Return whether a reported total is smaller than the one before it."""
    if report.tokens:
        if report.input < (total.input_tokens or 0):
            return True
        if report.output < (total.output_tokens or 0):
            return True
    if not report.dollars or report.cost is None:
        return False
    return report.cost < (total.cost_usd or 0.0)


def missing_usage(
    reports: Sequence[UsageReported], *, tokens: int, calls: int, has_text: bool
) -> Usage:
    """Return the usage of a turn that ended which its reports omit.

    Nothing is missing if the reports are complete, or if the agent did not work.
    `tokens` is their sum in the reports, `calls` the number of tool calls.
    """
    counts_tokens = any(report.tokens for report in reports)
    costs = [report.cost for report in reports if report.dollars]
    is_priced = any(cost is not None for cost in costs)
    if counts_tokens and calls and not tokens:
        # A model asked for the calls, so a report of no tokens is not true.
        is_paid = any(costs)
        return Usage(cost_usd=0.0 if is_paid else None, uncounted_calls=1)
    if counts_tokens:
        # Another report should have had the price.
        awaits_price = len(costs) < len(reports)
        return Usage(cost_usd=None) if awaits_price and not is_priced else Usage()
    if has_text or calls or reports:
        cost = 0.0 if is_priced else None
        return Usage(cost_usd=cost, calls=1, uncounted_calls=1)
    return Usage()
