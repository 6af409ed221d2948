"""The usage that an external agent reports, counted once."""

from __future__ import annotations

import re
from collections.abc import Callable

from goalrunner.agents.parser import UsageReported
from goalrunner.core.agent_ports import Recorder
from goalrunner.core.outcome import AgentSession, Usage

INTERVAL = 5.0
"""Seconds after which a sum is recorded although nothing else happens."""

_SESSION_ID = re.compile(r"[A-Za-z0-9][\w.:@/+=-]{0,199}", re.ASCII)
"""An id that cannot be read as an option of a command line."""


def usage_delta(report: UsageReported, total: Usage) -> tuple[Usage, Usage]:
    """Return the new usage in a report, and the session's total after it; `total` is the one before.

    A total that has decreased belongs to another session, and all of it is new.
    """
    calls = int(report.tokens)
    if not report.cumulative:
        # Tokens for no dollars: the agent does not know the price of its model.
        unpriced = report.tokens and report.dollars and not report.cost and report.input + report.output > 0
        return _usage(report.input, report.output, None if unpriced else report.cost, calls), total
    if _decreased(report, total):
        total = Usage()
    changes: dict[str, float | None] = {"calls": total.calls + 1}
    if report.tokens:
        changes |= {"input_tokens": report.input, "output_tokens": report.output}
    if report.dollars:
        changes |= {"cost_usd": report.cost, "known_cost_usd": report.cost or 0.0}
    after = total.model_copy(update=changes)
    new = after.since(total)
    return _usage(new.input_tokens or 0, new.output_tokens or 0, new.cost_usd, calls), after


def _usage(given: int, made: int, cost: float | None, calls: int) -> Usage:
    return Usage(input_tokens=given, output_tokens=made, cost_usd=cost, calls=calls, uncounted_calls=0)


def _decreased(report: UsageReported, total: Usage) -> bool:
    if report.tokens and (report.input < (total.input_tokens or 0) or report.output < (total.output_tokens or 0)):
        return True
    known = report.cost is not None and total.cost_usd is not None
    return report.dollars and known and (report.cost or 0.0) < (total.cost_usd or 0.0)


class UsageTracker:
    """Records the usage and the session ids of one turn. `clock` returns seconds."""

    def __init__(
        self, agent: str, recorder: Recorder, session: AgentSession | None, clock: Callable[[], float]
    ) -> None:
        self.reports = 0
        self.tokens = 0
        """Tokens of this turn."""
        self._agent = agent
        self._recorder = recorder
        self._clock = clock
        self._total = session.total if session is not None else Usage()
        self._id = session.id if session is not None else ""
        self._recorded = session
        self._renamed = False
        self._pending: Usage | None = None
        self._written = clock()
        self._has_tokens = self._has_price = self._awaits_price = False

    @property
    def session(self) -> AgentSession | None:
        """Return the agent's session as far as it is known."""
        return AgentSession(agent=self._agent, id=self._id, total=self._total) if self._id else None

    def name_session(self, name: str) -> None:
        """Note the session's id. The first one of a turn is recorded at once, for a run that is killed."""
        if not _SESSION_ID.fullmatch(name) or name == self._id:
            return
        self._id = name
        if not self._renamed:
            self._renamed = True
            self.write()

    def add(self, report: UsageReported) -> None:
        """Count a report."""
        new, self._total = usage_delta(report, self._total)
        self.reports += 1
        self.tokens += new.tokens
        self._has_tokens |= report.tokens
        self._has_price |= report.dollars and report.cost is not None
        self._awaits_price |= not report.dollars
        self._hold(new)
        if self._clock() - self._written >= INTERVAL:
            self.write()

    def end(self, *, worked: bool) -> None:
        """Record the turn's usage. What the agent did not report is unknown, not zero, if the agent `worked`."""
        if self._has_tokens:
            if self._awaits_price and not self._has_price:
                self._hold(Usage(cost_usd=None))
        elif worked or self.reports:
            self._hold(Usage(cost_usd=0.0 if self._has_price else None, calls=1, uncounted_calls=1))
        self.write()

    def write(self) -> None:
        """Record what is not yet recorded."""
        if self._pending is not None:
            self._recorder.usage("agent", self._pending)
            self._pending = None
        session = self.session
        if session is not None and session != self._recorded:
            self._recorder.session(session)
            self._recorded = session
        self._written = self._clock()

    def _hold(self, used: Usage) -> None:
        self._pending = used if self._pending is None else self._pending + used
