"""Appending events and folding the state; the deadline; one driver for each conversation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import assert_never

from goalrunner.core import events
from goalrunner.core.agent_ports import Conversation
from goalrunner.core.errors import ConversationBusy
from goalrunner.core.events import Event, Record, SecretsReplaced
from goalrunner.core.evidence import EvidenceIndex, TrailIndex
from goalrunner.core.fold import apply
from goalrunner.core.messages import text_of
from goalrunner.core.observation import Claim, EvidenceRow, Observation, Trail
from goalrunner.core.outcome import GoalOutcome, GoalStatus
from goalrunner.core.ports import Artifacts, Log, Transcript
from goalrunner.core.run_parts import Observer
from goalrunner.core.run_state import RunState
from goalrunner.core.steps import Finish
from goalrunner.core.summary import outcome_of

_LOGGER = logging.getLogger("goalrunner")


class Journal:
    """Appends events and keeps the state that they fold to. `state` is never assigned from outside."""

    def __init__(
        self,
        log: Log,
        transcript: Transcript,
        artifacts: Artifacts,
        observers: Sequence[Observer] = (),
        save: Callable[[RunState], None] | None = None,
    ) -> None:
        self.transcript = transcript
        self.artifacts = artifacts
        self._log = log
        self._observers = list(observers)
        self._save = save
        self._state: RunState | None = None
        self._index = TrailIndex()
        self._evidence = EvidenceIndex()

    @property
    def state(self) -> RunState:
        """The fold of everything appended so far."""
        if self._state is None:
            raise RuntimeError("nothing has been appended yet")
        return self._state

    def append(self, event: Event) -> Record:
        """Write an event, fold it, and tell the observers."""
        record = self._log.append(event)
        self._state = apply(self._state, record)
        self._index.add(record)
        self._evidence.add(record)
        self._tell(lambda observer: observer.on_record(record))
        return record

    def count(self, replaced: dict[str, int]) -> None:
        """Write how many secrets were replaced since the last time, by kind; nothing where none were."""
        if replaced:
            self.append(SecretsReplaced(counts=replaced))

    def replay(self, record: Record) -> None:
        """Fold an event that an earlier process wrote; nobody is told of it again."""
        self._state = apply(self._state, record)
        self._index.add(record)
        self._evidence.add(record)

    def take_up(self, state: RunState, trail: TrailIndex, evidence: EvidenceIndex) -> None:
        """Know what an earlier process wrote, from who has folded it already."""
        self._state, self._index, self._evidence = state, trail, evidence

    def fold_unwritten(self, event: Event) -> None:
        """Fold an ending that cannot be written any more, so that the outcome at least says how the run ended."""
        last = self.state
        record = Record(seq=last.memory.version + 1, at=last.goal.updated_at, elapsed=last.elapsed, event=event)
        self._state = apply(last, record)

    def outcome(self, run_path: str = "") -> GoalOutcome:
        """The outcome of the state as it is, with the table of its evidence."""
        return outcome_of(self.state, run_path).model_copy(update={"evidence": self.evidence()})

    def evidence(self) -> tuple[EvidenceRow, ...]:
        """The table of what the last verdict rests on."""
        return self._evidence.rows(self.state)

    def paused(self) -> AbstractContextManager[None]:
        """A time that a person takes: it is no active time."""
        return self._log.paused()

    def save(self) -> None:
        """Let the summary of the state be rewritten."""
        if self._save is not None:
            self._save(self.state)

    def stream(self, delta: str) -> None:
        """Show a piece of text that is not written."""
        self._tell(lambda observer: observer.on_text(delta))

    def _tell(self, tell: Callable[[Observer], None]) -> None:
        """A watcher that fails is told nothing more; what it watches goes on."""
        for observer in tuple(self._observers):
            try:
                tell(observer)
            except Exception:
                self._observers.remove(observer)
                _LOGGER.exception("%s failed and is told nothing more; the run goes on", type(observer).__name__)

    def next_observation(self, ahead: int = 0) -> str:
        """The id that the next observation gets; `ahead` skips as many."""
        return f"o{self.state.observations + 1 + ahead}"

    def trail(self) -> Trail:
        """Observations and claims so far, with the way to their texts."""
        return Trail(items=tuple(self._index.items), read=self._read)

    def _read(self, item: Observation | Claim) -> str:
        if isinstance(item, Observation):
            data = self.artifacts.read(item.output) if item.output else b""
            return data.decode("utf-8", errors="replace")
        return text_of(self.transcript.read(item.text).get("content")) if item.text else ""


class Deadline:
    """One timeout after the other. `paused` stops the clock of the log for as long."""

    def __init__(self, paused: Callable[[], AbstractContextManager[None]]) -> None:
        self._paused = paused
        self._timeout: asyncio.Timeout | None = None

    def begin(self, seconds: float | None) -> asyncio.Timeout:
        """The timeout to work under; None: no limit."""
        self._timeout = asyncio.timeout(seconds)
        return self._timeout

    @contextmanager
    def standing(self) -> Iterator[None]:
        """The time in it counts for nothing."""
        timeout = self._timeout
        until = timeout.when() if timeout is not None and not timeout.expired() else None
        if timeout is None or until is None:
            with self._paused():
                yield
            return
        loop = asyncio.get_running_loop()
        left = until - loop.time()
        timeout.reschedule(None)
        try:
            with self._paused():
                yield
        finally:
            timeout.reschedule(loop.time() + left)


def ending(finish: Finish) -> events.Ending:
    """The event that says so."""
    match finish.status:
        case GoalStatus.COMPLETE:
            return events.Completed(result_ref=finish.message)
        case GoalStatus.CAPPED:
            return events.Capped(stop_reason=finish.reason, reason=finish.message)
        case GoalStatus.BLOCKED:
            return events.Blocked(stop_reason=finish.reason, reason=finish.message)
        case GoalStatus.CANCELLED:
            return events.Cancelled(reason=finish.message, stop_reason=finish.reason, signal=finish.signal)
        case GoalStatus.FAILED | GoalStatus.RUNNING:
            return events.Failed(stop_reason=finish.reason, reason=finish.message)
        case _:
            assert_never(finish.status)


_driven: set[int] = set()


def refuse_driven(conversation: Conversation) -> None:
    """Raises ConversationBusy where another driver is at work on this conversation."""
    if id(conversation) in _driven:
        raise ConversationBusy(
            "this conversation is already being driven",
            "wait for the other run to end, or give this run its own conversation",
        )


@contextmanager
def exclusive(conversation: Conversation) -> Iterator[None]:
    """Drive a conversation alone. Raises ConversationBusy where another driver is at work on it."""
    refuse_driven(conversation)
    key = id(conversation)
    _driven.add(key)
    try:
        yield
    finally:
        _driven.discard(key)
