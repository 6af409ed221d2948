"""The adapters of a run; its log and the state that its events fold to; the deadline; exclusive use of a conversation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.agent_ports import Conversation
from goalrunner.core.check_ports import Checker, Judge, Validator, Workspace
from goalrunner.core.errors import ConversationBusy
from goalrunner.core.events import Event, Record, SecretsReplaced
from goalrunner.core.fold import apply
from goalrunner.core.observation import EvidenceRow, Trail
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.ports import Approver, Artifacts, Clock, Log, Observer, TextObserver, Transcript
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import EvidenceIndex, outcome_of

_LOGGER = logging.getLogger("goalrunner")


@dataclass(frozen=True)
class Parts:
    """The adapters of one run."""

    conversation: Conversation
    validators: tuple[Validator, ...]
    judge: Judge | None
    log: Log
    transcript: Transcript
    artifacts: Artifacts
    clock: Clock
    workspace: Path
    scratch: Callable[[str], Path]
    watch: Workspace | None = None
    """Takes the snapshots; None if the workspace is not the deliverable."""
    checker: Checker | None = None
    """Runs the validators in the check environment; None if they run in the workspace as it is."""
    redact: Callable[[str], str] = lambda text: text
    replaced: Callable[[], dict[str, int]] = dict
    """Return how many secrets were replaced since the last call, by kind."""
    kept: Callable[[], dict[str, str]] = dict
    """Return the files about the start in the run's folder, and their SHA-256."""
    approver: Approver | None = None
    """Asks a person for approvals and answers; None if no person is available."""


class Journal:
    """Appends events and keeps the state that they fold to."""

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
        self._evidence = EvidenceIndex()

    @property
    def state(self) -> RunState:
        """The fold of everything appended so far."""
        if self._state is None:
            raise RuntimeError("nothing has been appended yet")
        return self._state

    def append(self, event: Event) -> Record:
        """Write an event, fold it, and notify the observers."""
        record = self._log.append(event)
        self.replay(record)
        self._notify(lambda observer: observer.on_record(record))
        return record

    def sync(self) -> None:
        """Wait until everything recorded is durable."""
        self._log.sync()

    def count(self, replaced: dict[str, int]) -> None:
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
        """Fold a last event that cannot be written, so that the outcome tells how the run ended."""
        last = self.state
        record = Record(seq=last.memory.version + 1, at=last.goal.updated_at, elapsed=last.elapsed, event=event)
        self._state = apply(last, record)

    def outcome(self, run_path: str = "") -> GoalOutcome:
        """Return the outcome of the current state, with the evidence table."""
        return outcome_of(self.state, run_path).model_copy(update={"evidence": self.evidence()})

    def evidence(self) -> tuple[EvidenceRow, ...]:
        """Return the evidence table of the last verdict."""
        return self._evidence.rows(self.state)

    def paused(self) -> AbstractContextManager[None]:
        """Return a context whose duration is not active time, such as waiting for a person."""
        return self._log.paused()

    def save(self) -> None:
        """Rewrite the summary of the state."""
        if self._save is not None:
            self._save(self.state)

    @property
    def streams_text(self) -> bool:
        """Whether an observer shows the agent's text while it streams."""
        return any(isinstance(observer, TextObserver) for observer in self._observers)

    def stream(self, delta: str) -> None:
        """Pass a piece of streamed text to the observers; it is not recorded."""
        self._notify(lambda observer: observer.on_text(delta) if isinstance(observer, TextObserver) else None)

    def _notify(self, tell: Callable[[Observer], None]) -> None:
        """Notify the observers. One that raises is removed; the run continues."""
        for observer in tuple(self._observers):
            try:
                tell(observer)
            except Exception:
                self._observers.remove(observer)
                _LOGGER.exception("%s failed and is not called again; the run continues", type(observer).__name__)

    def next_observation(self, ahead: int = 0) -> str:
        """Return the id of the next observation; `ahead` skips as many."""
        return f"o{self.state.observations + 1 + ahead}"

    def trail(self) -> Trail:
        """Return the observations and claims so far."""
        return self._evidence.trail(self.artifacts.read, self.transcript.read)


class Deadline:
    """The time limit of a run. `paused` stops the clock of the log."""

    def __init__(self, paused: Callable[[], AbstractContextManager[None]]) -> None:
        self._paused = paused
        self._timeout: asyncio.Timeout | None = None

    def begin(self, seconds: float | None) -> asyncio.Timeout:
        """Return the timeout to work under; None means no limit."""
        self._timeout = asyncio.timeout(seconds)
        return self._timeout

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Stop the clock inside of this context."""
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


_driven: set[int] = set()


def refuse_driven(conversation: Conversation) -> None:
    """Raise ConversationBusy if another run uses this conversation."""
    if id(conversation) in _driven:
        raise ConversationBusy(
            "this conversation is already used by another run",
            "wait for the other run to end, or give this run its own conversation",
        )


@contextmanager
def exclusive(conversation: Conversation) -> Iterator[None]:
    """Use a conversation exclusively. Raise ConversationBusy if another run uses it."""
    refuse_driven(conversation)
    key = id(conversation)
    _driven.add(key)
    try:
        yield
    finally:
        _driven.discard(key)
