"""What a turn cost, as far as the agent says. Owns reading it; unknown stays unknown.

The protocol is stable on one number alone: the cost of the whole session so far, in `usage_update`. The tokens that a
prompt's answer may carry are a draft that does not say whether they are the turn's or the session's. They are taken for
the turn's: where that is wrong, too much is counted, and a budget ends a run too early rather than too late.
"""

from __future__ import annotations

import math
from typing import Any

from goalrunner.agents.acp.reading import at, count
from goalrunner.model.preset import BudgetName
from goalrunner.model.usage import Usage

REPORTS: frozenset[BudgetName] = frozenset()
"""Budgets that can be kept to with any agent that speaks the protocol: none, for nothing of this must be reported."""


class Meter:
    """The costs of one session. `total` are the dollars that an earlier process knew of, None for none."""

    def __init__(self, total: float | None = None) -> None:
        self._before = total or 0.0
        self._now: float | None = None

    @property
    def total(self) -> float | None:
        """Dollars of the session in all; None: it has not said."""
        return self._now

    def hear(self, update: Any) -> None:
        """Take in a `usage_update`."""
        amount = at(update, "cost", "amount")
        known = isinstance(amount, int | float) and not isinstance(amount, bool)
        if known and at(update, "cost", "currency") == "USD" and math.isfinite(amount) and amount >= 0:
            self._now = float(amount)

    def turn(self, response: Any) -> Usage:
        """What the turn cost that ended with this response."""
        cost = None
        if self._now is not None:
            # Less than before: its session counts anew.
            cost = self._now - self._before if self._now >= self._before else self._now
            self._before = self._now
        tokens_in, tokens_out = _tokens(response)
        return Usage(input_tokens=tokens_in, output_tokens=tokens_out, cost_usd=cost, calls=1)


def _tokens(response: Any) -> tuple[int, int]:
    """Input, with whatever was cached or thought, and output."""
    said = at(response, "usage")
    given, made = count(at(said, "inputTokens")) or 0, count(at(said, "outputTokens")) or 0
    if not (given or made):
        quota = at(response, "_meta", "quota", "token_count")  # Gemini CLI
        return count(at(quota, "input_tokens")) or 0, count(at(quota, "output_tokens")) or 0
    return max((count(at(said, "totalTokens")) or 0) - made, given), made
