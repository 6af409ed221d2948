"""The usage of a turn of an ACP agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalrunner.agents.json_access import at, count, items, number
from goalrunner.agents.parser import UsageReported
from goalrunner.agents.usage_tracker import usage_delta
from goalrunner.core.agent_preset import BudgetName, Scope
from goalrunner.core.outcome import Usage

Tokens = tuple[int, int]
"""Input, including cached and reasoning tokens, and output."""

_METRICS = "openhands.dev/metrics"
_NAMES = (("inputTokens", "input_tokens"), ("outputTokens", "output_tokens"), ("totalTokens", "total_tokens"))


class AcpUsage:
    """Counts the usage of one session. `scopes` is what the agent reports; `total` the totals so far."""

    def __init__(self, scopes: Mapping[BudgetName, Scope], total: Usage | None = None) -> None:
        known = total or Usage()
        self.total = known if known.cost_usd is not None else known.model_copy(update={"cost_usd": 0.0})
        """The session's usage, as far as the agent reports totals."""
        self._cumulative_tokens = scopes.get("tokens") == "session"
        self._cumulative_dollars = scopes.get("cost_usd") != "turn"
        self._promises_tokens = "tokens" in scopes
        self._tokens: Tokens | None = None
        self._dollars: float | None = None

    def update(self, params: Any) -> None:
        """Take in the parameters of a `session/update`: amounts of a turn are added, of totals the last one counts."""
        if (amount := _dollars(params)) is not None:
            self._dollars = amount + (0.0 if self._cumulative_dollars else self._dollars or 0.0)
        # Qwen Code reports the tokens of one call, OpenHands those of the session.
        tokens = _counted(at(params, "update", "_meta", "usage")) or _counted(_metrics(params))
        if tokens is not None:
            given, made = (0, 0) if self._cumulative_tokens else self._tokens or (0, 0)
            self._tokens = (given + tokens[0], made + tokens[1])

    def end_turn(self, response: Any) -> Usage:
        """Return the usage of the turn that ended with this response; what was not reported is unknown."""
        tokens, self._tokens = _of_response(response) or self._tokens, None
        dollars, self._dollars = self._dollars, None
        used = self._new_tokens(tokens) if tokens is not None else Usage()
        cost = self._new_dollars(dollars) if dollars is not None else None
        return Usage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            # Tokens for no dollars: the agent does not know the price of its model.
            cost_usd=None if used.tokens and not cost else cost,
            calls=1,
            uncounted_calls=int(tokens is None or not self._promises_tokens),
        )

    def _new_tokens(self, tokens: Tokens) -> Usage:
        report = UsageReported(*tokens, cost=0.0, cumulative=self._cumulative_tokens, dollars=False)
        new, after = usage_delta(report, self.total)
        dollars = {"cost_usd": self.total.cost_usd, "known_cost_usd": self.total.known_cost_usd}
        self.total = after.model_copy(update=dollars)
        return new

    def _new_dollars(self, amount: float) -> float | None:
        report = UsageReported(cost=amount, cumulative=self._cumulative_dollars, tokens=False)
        new, self.total = usage_delta(report, self.total)
        return new.cost_usd


def _dollars(params: Any) -> float | None:
    if at(params, "update", "sessionUpdate") == "usage_update":
        cost = at(params, "update", "cost")
        return number(at(cost, "amount")) if at(cost, "currency") == "USD" else None
    return number(at(_metrics(params), "cost"))


def _metrics(params: Any) -> Any:
    meta = at(params, "_meta")
    return at(meta, "field_meta", _METRICS) or at(meta, _METRICS) or at(params, "update", "_meta", _METRICS)


def _of_response(response: Any) -> Tokens | None:
    """Return the tokens of the answer to a prompt. The rows by model may include helpers that the sum leaves out."""
    quota = at(response, "_meta", "quota")
    told = _counted(at(response, "usage")) or _counted(at(quota, "token_count"))
    rows = [_counted(at(row, "token_count")) or (0, 0) for row in items(at(quota, "model_usage"))]
    whole = (sum(row[0] for row in rows), sum(row[1] for row in rows))
    return whole if sum(whole) > sum(told or (0, 0)) else told


def _counted(usage: Any) -> Tokens | None:
    """Return input and output; the rest of a total counts as input."""
    given, made, total = (
        next((found for name in names if (found := count(at(usage, name))) is not None), None) for names in _NAMES
    )
    if given is None and made is None:
        return None
    return max((total or 0) - (made or 0), given or 0), made or 0
