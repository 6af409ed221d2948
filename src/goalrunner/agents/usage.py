"""The usage that external agents report: amounts of a turn, and totals of a session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from goalrunner.agents.parser import UsageReported, at, items, number
from goalrunner.core.agent_ports import Recorder
from goalrunner.core.agent_preset import BudgetName, Scope
from goalrunner.core.outcome import AgentSession, Usage

_SESSION_ID = re.compile(r"[A-Za-z0-9][\w.:@/+=-]{0,199}", re.ASCII)
"""An id that cannot be read as an option of a command line."""


def usage_delta(report: UsageReported, total: Usage) -> tuple[Usage, Usage]:
    """Return the new usage in a report, and the session's total after it; `total` is the one before.

    A total that has decreased belongs to another session, and all of it is new.
    """
    given, made, cost, calls = report.input, report.output, report.cost, int(report.tokens)
    if not report.cumulative:
        # Tokens for no dollars: the agent does not know the price of its model.
        unpriced = report.tokens and report.dollars and not cost and given + made > 0
        return _usage(given, made, None if unpriced else cost, calls), total
    fewer = report.tokens and (given < (total.input_tokens or 0) or made < (total.output_tokens or 0))
    if fewer or (report.dollars and cost is not None and cost < (total.cost_usd or 0.0)):
        total = Usage()
    changes: dict[str, float | None] = {"calls": total.calls + 1}
    if report.tokens:
        changes |= {"input_tokens": given, "output_tokens": made}
    if report.dollars:
        changes |= {"cost_usd": cost, "known_cost_usd": cost or 0.0}
    after = total.model_copy(update=changes)
    new = after.since(total)
    return _usage(new.input_tokens or 0, new.output_tokens or 0, new.cost_usd, calls), after


def _usage(given: int, made: int, cost: float | None, calls: int) -> Usage:
    return Usage(input_tokens=given, output_tokens=made, cost_usd=cost, calls=calls, uncounted_calls=0)


class UsageTracker:
    """Records the usage and the session ids of one turn. `add` only sums; `write` records the sum."""

    def __init__(self, agent: str, recorder: Recorder, session: AgentSession | None) -> None:
        self.reports: list[UsageReported] = []
        self.tokens = 0
        """Tokens of this turn."""
        self.session = session
        """The agent's session as far as it is known."""
        self._agent = agent
        self._recorder = recorder
        self._total = session.total if session is not None else Usage()
        self._recorded = session
        self._pending: Usage | None = None

    def name_session(self, name: str) -> None:
        """Record the session's id at once, for a run that is killed."""
        if _SESSION_ID.fullmatch(name) and not (self.session and name == self.session.id):
            self.session = AgentSession(agent=self._agent, id=name, total=self._total)
            self.write()

    def add(self, report: UsageReported) -> None:
        """Count a report."""
        new, self._total = usage_delta(report, self._total)
        if self.session:
            self.session = self.session.model_copy(update={"total": self._total})
        self.reports.append(report)
        self.tokens += new.tokens
        self._pending = (self._pending or Usage()) + new

    def end(self, *, worked: bool) -> None:
        """Record the turn's usage. What the agent did not report is unknown, not zero, if the agent `worked`."""
        has_price = any(report.dollars and report.cost is not None for report in self.reports)
        missing = Usage()
        if any(report.tokens for report in self.reports):
            awaits_price = any(not report.dollars for report in self.reports)
            missing = Usage(cost_usd=None) if awaits_price and not has_price else missing
        elif worked or self.reports:
            missing = Usage(cost_usd=0.0 if has_price else None, calls=1, uncounted_calls=1)
        if self._pending or missing != Usage():
            self._pending = (self._pending or Usage()) + missing
        self.write()

    def write(self) -> None:
        """Record what is not yet recorded."""
        if self._pending is not None:
            self._recorder.usage("agent", self._pending)
            self._pending = None
        if self.session is not None and self.session != self._recorded:
            self._recorder.session(self.session)
            self._recorded = self.session


Tokens = tuple[int, int]
"""Input, including cached and reasoning tokens, and output."""

_METRICS = "openhands.dev/metrics"
_NAMES = (("inputTokens", "input_tokens"), ("outputTokens", "output_tokens"), ("totalTokens", "total_tokens"))


class AcpUsage:
    """Counts the usage of one ACP session. `scopes` is what the agent reports; `total` the totals so far."""

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
        meta = at(params, "_meta")
        metrics = at(meta, "field_meta", _METRICS) or at(meta, _METRICS) or at(params, "update", "_meta", _METRICS)
        amount = number(at(metrics, "cost"))
        if at(params, "update", "sessionUpdate") == "usage_update":
            cost = at(params, "update", "cost")
            amount = number(at(cost, "amount")) if at(cost, "currency") == "USD" else None
        if amount is not None:
            self._dollars = amount + (0.0 if self._cumulative_dollars else self._dollars or 0.0)
        # Qwen Code reports the tokens of one call, OpenHands those of the session.
        tokens = _counted(at(params, "update", "_meta", "usage")) or _counted(metrics)
        if tokens is not None:
            given, made = (0, 0) if self._cumulative_tokens else self._tokens or (0, 0)
            self._tokens = (given + tokens[0], made + tokens[1])

    def end_turn(self, response: Any) -> Usage:
        """Return the usage of the turn that ended with this response; what was not reported is unknown."""
        tokens, self._tokens = _of_response(response) or self._tokens, None
        dollars, self._dollars = self._dollars, None
        used, cost = Usage(), None
        if tokens is not None:
            report = UsageReported(*tokens, cost=0.0, cumulative=self._cumulative_tokens, dollars=False)
            kept = {"cost_usd": self.total.cost_usd, "known_cost_usd": self.total.known_cost_usd}
            used, after = usage_delta(report, self.total)
            self.total = after.model_copy(update=kept)
        if dollars is not None:
            report = UsageReported(cost=dollars, cumulative=self._cumulative_dollars, tokens=False)
            new, self.total = usage_delta(report, self.total)
            cost = new.cost_usd
        return Usage(
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            # Tokens for no dollars: the agent does not know the price of its model.
            cost_usd=None if used.tokens and not cost else cost,
            calls=1,
            uncounted_calls=int(tokens is None or not self._promises_tokens),
        )


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
        next((found for name in names if (found := number(at(usage, name))) is not None), None) for names in _NAMES
    )
    if given is None and made is None:
        return None
    return int(max((total or 0) - (made or 0), given or 0)), int(made or 0)
