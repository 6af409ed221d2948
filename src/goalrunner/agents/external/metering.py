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
    said = Usage(input_tokens=report.input, output_tokens=report.output, cost_usd=report.cost, calls=1)
    if not report.cumulative:
        return said, total
    if said.input_tokens < total.input_tokens or said.output_tokens < total.output_tokens:
        total = Usage()
    known = said.cost_usd is not None and total.cost_usd is not None
    new = Usage(
        input_tokens=said.input_tokens - total.input_tokens,
        output_tokens=said.output_tokens - total.output_tokens,
        cost_usd=max((said.cost_usd or 0.0) - (total.cost_usd or 0.0), 0.0) if known else None,
        calls=1,
    )
    return new, said.model_copy(update={"calls": total.calls + 1})
