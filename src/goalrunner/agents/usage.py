"""What an external agent reports to have used, counted once."""

from __future__ import annotations

import re
from collections.abc import Callable

from goalrunner.agents.stream_events import Reported
from goalrunner.core.agent_ports import Recorder
from goalrunner.core.outcome import AgentSession, Usage


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


INTERVAL = 5.0
"""Seconds between two sums that are written, where nothing else happens."""

_SESSION = re.compile(r"[A-Za-z0-9][\w.:@/+=-]{0,199}", re.ASCII)
"""An id that may stand on a command line: it can never be taken for an option."""


class Ledger:
    """Takes reports and the session's names. `clock` gives seconds."""

    def __init__(
        self, agent: str, recorder: Recorder, session: AgentSession | None, clock: Callable[[], float]
    ) -> None:
        self.reports = 0
        """Reports of what it used."""
        self.tokens = 0
        """All that it reported in this turn."""
        self._agent = agent
        self._recorder = recorder
        self._clock = clock
        self._total = session.total if session is not None else Usage()
        self._name = session.id if session is not None else ""
        self._told = session
        self._renamed = False
        self._held: Usage | None = None
        self._written = clock()
        self._counted = self._priced = self._owed = False

    @property
    def session(self) -> AgentSession | None:
        """The agent's memory as far as it is known."""
        return AgentSession(agent=self._agent, id=self._name, total=self._total) if self._name else None

    def named(self, name: str) -> None:
        """Its session has this id. The first one of a turn is written at once: a run that is killed goes on in it."""
        if not _SESSION.fullmatch(name) or name == self._name:
            return
        self._name = name
        if not self._renamed:
            self._renamed = True
            self.write()

    def reported(self, report: Reported) -> None:
        """It used that."""
        new, self._total = spent(report, self._total)
        self.reports += 1
        self.tokens += new.tokens
        self._counted |= report.tokens
        self._priced |= report.dollars and report.cost is not None
        self._owed |= not report.dollars
        self._hold(new)
        if self._clock() - self._written >= INTERVAL:
            self.write()

    def end(self, *, worked: bool) -> None:
        """The turn came to its end, in which it `worked`: what it did not tell is unknown, and not nothing."""
        if self._counted:
            if self._owed and not self._priced:
                self._hold(Usage(cost_usd=None))
        elif worked or self.reports:
            self._hold(Usage(cost_usd=0.0 if self._priced else None, calls=1, uncounted_calls=1))
        self.write()

    def write(self) -> None:
        """Write what was not written yet."""
        if self._held is not None:
            self._recorder.usage("agent", self._held)
            self._held = None
        session = self.session
        if session is not None and session != self._told:
            self._recorder.session(session)
            self._told = session
        self._written = self._clock()

    def _hold(self, used: Usage) -> None:
        self._held = used if self._held is None else self._held + used
