"""The one way into the log: append, fold, tell. Owns the state of a run while it lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goalrunner.events import Event, Record
from goalrunner.model.dialogue import text_of
from goalrunner.model.observation import Claim, Observation, Trail
from goalrunner.ports import Artifacts, Log, Observer, Transcript
from goalrunner.state import RunState, apply
from goalrunner.state.trail import TrailIndex


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
        self._observers = observers
        self._save = save
        self._state: RunState | None = None
        self._index = TrailIndex()

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
        for observer in self._observers:
            observer.on_record(record)
        return record

    def save(self) -> None:
        """Let the summary of the state be rewritten."""
        if self._save is not None:
            self._save(self.state)

    def stream(self, delta: str) -> None:
        """Show a piece of text that is not written."""
        for observer in self._observers:
            observer.on_text(delta)

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
