"""The log of a run: append events, fold the state, notify observers, count time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from goalrunner.core.activity import Activity, ActivityObserver
from goalrunner.core.agent_ports import Observer, TextObserver
from goalrunner.core.events import Event, Record, SecretsReplaced
from goalrunner.core.evidence_index import EvidenceIndex
from goalrunner.core.fold import apply
from goalrunner.core.observation import EvidenceRow, Observation, Trail
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.record_ports import Artifacts, Log, Transcript
from goalrunner.core.run_state import RunState
from goalrunner.core.snapshot_history import SnapshotHistory
from goalrunner.core.state_outcome import outcome_of

_LOGGER = logging.getLogger("goalrunner")


class RunJournal:
    """Appends events and keeps the state that they fold to."""

    def __init__(
        self,
        log: Log,
        transcript: Transcript,
        artifacts: Artifacts,
        observers: Sequence[Observer] = (),
        save: Callable[[RunState], None] | None = None,
        folder: Path | None = None,
    ) -> None:
        """`folder` is the run's; None if nothing of the run is kept."""
        self.log = log
        self.transcript = transcript
        self.artifacts = artifacts
        self._observers = list(observers)
        self._save = save
        self._folder = folder
        self._state: RunState | None = None
        self._evidence = EvidenceIndex()
        # The time limits in effect, the outermost first.
        self._timeouts: list[asyncio.Timeout] = []

    @property
    def state(self) -> RunState:
        if self._state is None:
            raise RuntimeError("nothing has been appended yet")
        return self._state

    def append(self, event: Event) -> Record:
        """Write an event, fold it, and notify the observers."""
        record = self.log.append(event)
        self.replay(record)
        self._notify(lambda observer: observer.on_record(record))
        return record

    def count_secrets(self, replaced: dict[str, int]) -> None:
        """Record how many secrets were replaced since the last call, by kind."""
        if replaced:
            self.append(SecretsReplaced(counts=replaced))

    def replay(self, record: Record) -> None:
        """Fold an event of an earlier process without notifying observers."""
        self._state = apply(self._state, record)
        self._evidence.add(record)

    def resume_from(self, state: RunState, evidence: EvidenceIndex) -> None:
        """Start from a log that was already folded."""
        self._state, self._evidence = state, evidence

    def fold_unwritten(self, event: Event) -> None:
        """Fold a last event that cannot be written.

        The outcome then still contains how the run ended.
        """
        # The log gives a record its number and time; here the last ones are reused.
        last = self.state
        record = Record(
            seq=last.memory.version + 1,
            at=last.goal.updated_at,
            elapsed=last.elapsed,
            event=event,
        )
        self._state = apply(last, record)

    def outcome(self) -> GoalOutcome:
        """Return the outcome of the current state, with the evidence table."""
        path = str(self._folder or "")
        return outcome_of(self.state, path, evidence=self.evidence())

    @property
    def history(self) -> SnapshotHistory:
        return self._evidence.history

    def evidence(self) -> tuple[EvidenceRow, ...]:
        """Return the evidence table of the last verdict."""
        return self._evidence.rows(self.state)

    def save(self) -> None:
        """Rewrite the summary of the state."""
        if self._save is not None:
            self._save(self.state)

    @property
    def streams_text(self) -> bool:
        return any(isinstance(observer, TextObserver) for observer in self._observers)

    def stream(self, delta: str) -> None:
        """Pass a piece of streamed text to the observers; it is not recorded."""

        def notify(observer: Observer) -> None:
            if isinstance(observer, TextObserver):
                observer.on_text(delta)

        self._notify(notify)

    def show(self, activity: Activity) -> None:
        """Pass an activity to the observers; it is not recorded."""

        def notify(observer: Observer) -> None:
            if isinstance(observer, ActivityObserver):
                observer.on_activity(activity)

        self._notify(notify)

    def _notify(self, notify: Callable[[Observer], None]) -> None:
        """Notify the observers. One that raises is removed; the run continues."""
        for observer in tuple(self._observers):
            try:
                notify(observer)
            # A run that costs money must not end because of its display.
            except Exception:
                self._observers.remove(observer)
                _LOGGER.exception(
                    "%s failed and is not called again; the run continues",
                    type(observer).__name__,
                )

    @asynccontextmanager
    async def deadline(self, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
        """Return a context with a time limit of active seconds; None for no limit.

        `suspended` extends it.
        """
        async with asyncio.timeout(seconds) as timeout:
            self._timeouts.append(timeout)
            try:
                yield timeout
            finally:
                self._timeouts.remove(timeout)

    @asynccontextmanager
    async def turn_deadline(self) -> AsyncIterator[asyncio.Timeout]:
        """Return a context with the deadline of the run, at which only the turn ends.

        The run goes on without a deadline then. If the turn ends earlier, the deadline
        is that of the run again.
        """
        active = (timeout for timeout in self._timeouts if not timeout.expired())
        outer = next(active, None)
        until = outer.when() if outer is not None else None
        # An expired timeout of the run would cancel what records the end of the turn.
        self.lift_deadlines()
        seconds = None
        if until is not None:
            seconds = until - asyncio.get_running_loop().time()
        async with self.deadline(seconds) as turn:
            try:
                yield turn
            finally:
                # The turn may have been suspended, which moved its deadline.
                if outer is not None and not turn.expired():
                    outer.reschedule(turn.when())

    def lift_deadlines(self) -> None:
        """Remove the time limits that are not reached."""
        for timeout in self._timeouts:
            if not timeout.expired():
                timeout.reschedule(None)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Stop the time limits and the clock of the log.

        The time in which a person is asked is not active time.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        stopped: list[tuple[asyncio.Timeout, float]] = []
        for timeout in self._timeouts:
            until = timeout.when()
            if until is not None and not timeout.expired():
                stopped.append((timeout, until))
        for timeout, _ in stopped:
            timeout.reschedule(None)
        try:
            with self.log.paused():
                yield
        finally:
            for timeout, until in stopped:
                timeout.reschedule(until + loop.time() - began)

    def next_observation(self, ahead: int = 0) -> str:
        """Return the id of the next observation, or of the one `ahead` places later."""
        return f"o{self.state.observations + 1 + ahead}"

    def observations(self, number: int) -> tuple[Observation, ...]:
        """Return the observations of a round so far, except of hidden validators."""
        items = (item for item in self._evidence.items if isinstance(item, Observation))
        return tuple(item for item in items if item.round == number)

    def trail(self) -> Trail:
        """Return the observations and claims so far."""
        return self._evidence.trail(self.artifacts.read, self.transcript.read)
