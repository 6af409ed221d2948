"""What a turn of an ACP agent used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalrunner.agents.acp_calls import at, count, items
from goalrunner.agents.stream_events import Reported
from goalrunner.agents.usage import spent
from goalrunner.core.agent_preset import BudgetName, Scope
from goalrunner.core.outcome import Usage

Tokens = tuple[int, int]
"""Input, with whatever was cached or thought, and output."""

_METRICS = "openhands.dev/metrics"
_MOST = 10**15
"""Dollars; no honest amount is larger."""


class Meter:
    """The costs of one session. `scopes` is what the agent reports; `total` what an earlier process knew of totals."""

    def __init__(self, scopes: Mapping[BudgetName, Scope], total: Usage | None = None) -> None:
        known = total or Usage()
        self.total = known if known.cost_usd is not None else known.model_copy(update={"cost_usd": 0.0})
        """What it reported of the session in all, where it reports totals."""
        self._totals = {"tokens": scopes.get("tokens") == "session", "cost_usd": scopes.get("cost_usd") != "turn"}
        self._promised = "tokens" in scopes
        self._tokens: Tokens | None = None
        self._dollars: float | None = None

    def hear(self, said: Any) -> None:
        """Take in the parameters of a `session/update`. Pieces of a turn are added up; of totals, the last one counts."""
        self._hear_dollars(_dollars(said))
        tokens = _of_update(said)
        if tokens is not None:
            before = (0, 0) if self._tokens is None or self._totals["tokens"] else self._tokens
            self._tokens = (before[0] + tokens[0], before[1] + tokens[1])

    def turn(self, response: Any) -> Usage:
        """What the turn cost that ended with this response. What it did not say is unknown, and whether it said all."""
        tokens, self._tokens = _of_answer(response) or self._tokens, None
        dollars, self._dollars = self._dollars, None
        used = self._new_tokens(tokens) if tokens is not None else Usage()
        cost = self._new_dollars(dollars) if dollars is not None else None
        return Usage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            # Tokens for no dollars at all are of a model whose price the agent does not know.
            cost_usd=None if used.tokens and not cost else cost,
            calls=1,
            uncounted_calls=int(tokens is None or not self._promised),
        )

    def _hear_dollars(self, amount: float | None) -> None:
        if amount is not None:
            before = 0.0 if self._dollars is None or self._totals["cost_usd"] else self._dollars
            self._dollars = before + amount

    def _new_tokens(self, tokens: Tokens) -> Usage:
        report = Reported(*tokens, cost=0.0, cumulative=self._totals["tokens"], dollars=False)
        new, after = spent(report, self.total)
        dollars = {"cost_usd": self.total.cost_usd, "known_cost_usd": self.total.known_cost_usd}
        self.total = after.model_copy(update=dollars)
        return new

    def _new_dollars(self, amount: float) -> float | None:
        new, self.total = spent(Reported(cost=amount, cumulative=self._totals["cost_usd"], tokens=False), self.total)
        return new.cost_usd


def _dollars(said: Any) -> float | None:
    if at(said, "update", "sessionUpdate") == "usage_update":
        cost = at(said, "update", "cost")
        return _amount(at(cost, "amount")) if at(cost, "currency") == "USD" else None
    return _amount(at(_metrics(said), "cost"))


def _amount(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST
    return float(value) if known else None  # which NaN is not, nor infinity


def _of_update(said: Any) -> Tokens | None:
    """The tokens that are told while a turn goes on: by Qwen Code those of one call, by OpenHands all of the session."""
    return _counted(at(said, "update", "_meta", "usage")) or _counted(_metrics(said))


def _metrics(said: Any) -> Any:
    beside = at(said, "_meta")
    return at(beside, "field_meta", _METRICS) or at(beside, _METRICS) or at(said, "update", "_meta", _METRICS)


def _of_answer(response: Any) -> Tokens | None:
    """The tokens that the answer to a prompt tells. By model, some tell more than in one number: their helpers' as well."""
    quota = at(response, "_meta", "quota")
    told = _counted(at(response, "usage")) or _counted(at(quota, "token_count"))
    rows = [_counted(at(row, "token_count")) or (0, 0) for row in items(at(quota, "model_usage"))]
    whole = (sum(row[0] for row in rows), sum(row[1] for row in rows))
    return whole if sum(whole) > sum(told or (0, 0)) else told


def _counted(said: Any) -> Tokens | None:
    """Input and output where any is told; whatever else a total holds counts as input."""
    given, made, total = (_first(said, *names) for names in _NAMES)
    if given is None and made is None:
        return None
    made = made or 0
    return max((total or 0) - made, given or 0), made


_NAMES = (("inputTokens", "input_tokens"), ("outputTokens", "output_tokens"), ("totalTokens", "total_tokens"))


def _first(said: Any, *names: str) -> int | None:
    return next((number for name in names if (number := count(at(said, name))) is not None), None)
