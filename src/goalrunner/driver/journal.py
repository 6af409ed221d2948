"""The one way into the log: append, fold, tell. Owns the state of a run while it lives."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from goalrunner.events import Event, Record, SecretsReplaced
from goalrunner.model.dialogue import text_of
from goalrunner.model.evidence import EvidenceRow
from goalrunner.model.observation import Claim, Observation, Trail
from goalrunner.model.outcome import GoalOutcome
from goalrunner.ports import Artifacts, Log, Observer, Transcript
from goalrunner.state import RunState, apply
from goalrunner.state.evidence import EvidenceIndex
from goalrunner.state.outcome import outcome_of
from goalrunner.state.trail import TrailIndex

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
