"""The usage of an ACP session, from the forms in which agents report it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from goalrunner.agents.json_lines import first, number
from goalrunner.agents.parser import UsageReported
from goalrunner.agents.reported_usage import usage_delta
from goalrunner.core.agent_preset import BudgetName, Scope
from goalrunner.core.messages import at, items
from goalrunner.core.outcome import Usage

# The extension under which OpenHands reports its usage.
_METRICS = "openhands.dev/metrics"


@dataclass(frozen=True)
class _Tokens:
    """Input tokens include cached ones, output tokens include reasoning."""

    input: int = 0
    output: int = 0

    @property
    def sum(self) -> int:
        return self.input + self.output

    def __add__(self, other: _Tokens) -> _Tokens:
        return _Tokens(self.input + other.input, self.output + other.output)


class AcpUsage:
    """Counts the usage of an ACP session.

    `scopes` says whether reported amounts are those of a turn or of the session.
    """

    def __init__(
        self, scopes: Mapping[BudgetName, Scope], total: Usage | None = None
    ) -> None:
        self.total = total or Usage()
        """The session's usage, as far as the agent reports totals."""
        self._tokens_are_totals = scopes.get("tokens") == "session"
        self._dollars_are_totals = scopes.get("cost_usd") != "turn"
        self._promises_tokens = "tokens" in scopes
        # Reported since the end of the last turn; None: nothing was reported.
        self._tokens: _Tokens | None = None
        self._dollars: float | None = None

    def update(self, params: Any) -> None:
        """Count the usage in the parameters of a `session/update`.

        Amounts of a turn are added up; of totals, the last one counts.
        """
        meta = at(params, "_meta")
        metrics = (
            at(meta, "field_meta", _METRICS)
            or at(meta, _METRICS)
            or at(params, "update", "_meta", _METRICS)
        )
        dollars = number(at(metrics, "cost"))
        if at(params, "update", "sessionUpdate") == "usage_update":
            dollars = _in_dollars(at(params, "update", "cost"))
        if dollars is not None:
            earlier = 0.0
            if not self._dollars_are_totals:
                earlier = self._dollars or 0.0
            self._dollars = earlier + dollars
        # Qwen Code reports the tokens of one call, OpenHands those of the session.
        tokens = _counted(at(params, "update", "_meta", "usage")) or _counted(metrics)
        if tokens is not None:
            if self._tokens is not None and not self._tokens_are_totals:
                tokens = self._tokens + tokens
            self._tokens = tokens

    def end_turn(self, response: Any, *, has_worked: bool = True) -> Usage:
        """Return the usage of the turn that ended with this response.

        Amounts that were not reported are unknown. If nothing was reported of a turn in
        which no model answered, nothing was used.
        """
        if not has_worked and self._tokens is None and self._dollars is None:
            return Usage()
        tokens = _of_response(response) or self._tokens
        dollars = self._dollars
        self._tokens = self._dollars = None
        used = Usage()
        if tokens is not None:
            used = self._new_tokens(tokens)
        cost = None
        if dollars is not None:
            cost = self._new_dollars(dollars)
        # If tokens cost nothing, the agent does not know the price of its model.
        if used.tokens and not cost:
            cost = None
        return Usage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cost_usd=cost,
            calls=1,
            uncounted_calls=int(tokens is None or not self._promises_tokens),
        )

    def _new_tokens(self, tokens: _Tokens) -> Usage:
        """Return the tokens of the turn, and add them to the total."""
        report = UsageReported(
            tokens.input,
            tokens.output,
            cost=0.0,
            cumulative=self._tokens_are_totals,
            dollars=False,
        )
        used, total = usage_delta(report, self.total)
        # The report is about tokens alone, so the dollars stay as they were.
        self.total = total.model_copy(
            update={
                "cost_usd": self.total.cost_usd,
                "known_cost_usd": self.total.known_cost_usd,
            }
        )
        return used

    def _new_dollars(self, dollars: float) -> float | None:
        """Return the dollars of the turn, and add them to the total."""
        report = UsageReported(
            cost=dollars, cumulative=self._dollars_are_totals, tokens=False
        )
        used, self.total = usage_delta(report, self.total)
        return used.cost_usd


def _in_dollars(cost: Any) -> float | None:
    """Return an amount with a currency; None if it is not in US dollars."""
    if at(cost, "currency") != "USD":
        return None
    return number(at(cost, "amount"))


def _of_response(response: Any) -> _Tokens | None:
    """Return the tokens in the response to a prompt."""
    quota = at(response, "_meta", "quota")
    total = _counted(at(response, "usage")) or _counted(at(quota, "token_count"))
    by_model = _Tokens()
    for row in items(at(quota, "model_usage")):
        by_model += _counted(at(row, "token_count")) or _Tokens()
    # The rows may include the models of helpers, which the total omits.
    if by_model.sum > (total or _Tokens()).sum:
        return by_model
    return total


def _counted(usage: Any) -> _Tokens | None:
    """Return the input and output tokens; None if neither is reported.

    What a reported total has beyond the output counts as input.
    """
    input_tokens = number(first(usage, "inputTokens", "input_tokens"))
    output_tokens = number(first(usage, "outputTokens", "output_tokens"))
    total = number(first(usage, "totalTokens", "total_tokens"))
    if input_tokens is None and output_tokens is None:
        return None
    output = output_tokens or 0
    return _Tokens(int(max((total or 0) - output, input_tokens or 0)), int(output))
