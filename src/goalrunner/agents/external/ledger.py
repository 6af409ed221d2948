"""What an external agent says in one turn of its session and of what it used. Owns adding up, and how often that is written.

An agent may report after each call of its model, or a million times: what it reports is added up, and the sum is written
now and then, before anything that it did with a tool, and at the end of the turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from goalrunner.agents.external.happenings import Reported
from goalrunner.agents.external.metering import spent
from goalrunner.model.usage import AgentSession, Usage
from goalrunner.ports import Recorder

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
