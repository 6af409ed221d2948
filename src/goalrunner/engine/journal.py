"""The adapters of a run; its log, state, deadline and stored outputs; results of validators as observations."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalrunner.core.activity import Activity, ActivityObserver
from goalrunner.core.agent_ports import Approver, Conversation, Observer, TextObserver
from goalrunner.core.events import Event, Record, SecretsReplaced, ValidatorsFinished
from goalrunner.core.evidence_index import EvidenceIndex
from goalrunner.core.fold import apply
from goalrunner.core.observation import (
    ArtifactRef,
    EvidenceRow,
    Observation,
    Snapshot,
    Trail,
    names_in,
)
from goalrunner.core.outcome import GoalOutcome
from goalrunner.core.ports import Checker, CheckRun, Judge, Reviewer, Validator
from goalrunner.core.run_state import RunState
from goalrunner.core.snapshot_history import SnapshotHistory
from goalrunner.core.state_outcome import outcome_of
from goalrunner.core.verdict import SuiteRecord, ValidatorResult

if TYPE_CHECKING:
    from goalrunner.records.artifacts import ArtifactStore
    from goalrunner.records.decision_files import DecisionFiles
    from goalrunner.records.event_log import EventLog, SystemClock
    from goalrunner.records.transcript_file import TranscriptFile
    from goalrunner.snapshots.store import SnapshotStore

_LOGGER = logging.getLogger("goalrunner")


@dataclass(frozen=True)
class Parts:
    """The adapters of one run."""

    conversation: Conversation
    validators: tuple[Validator, ...]
    judge: Judge | None
    log: EventLog
    transcript: TranscriptFile
    artifacts: ArtifactStore
    clock: SystemClock
    workspace: Path
    scratch: Callable[[str], Path]
    watch: SnapshotStore | None = (
        None  # takes the snapshots; None if the workspace is not the deliverable
    )
    checker: Checker | None = None  # None if validators run in the workspace as it is
    redact: Callable[[str], str] = lambda text: text
    replaced: Callable[[], dict[str, int]] = (
        dict  # counts the secrets replaced since the last call, by kind
    )
    kept: Callable[[], dict[str, str]] = (
        dict  # the files about the start in the run's folder, and their SHA-256
    )
    reviewer: Reviewer | None = None
    in_thread: Callable[..., Awaitable[Any]] = (
        asyncio.to_thread
    )  # calls a plain function beside the event loop
    approver: Approver | None = None  # None if no person is available
    given: DecisionFiles | None = None  # the decisions of people at other terminals


class RunJournal:
    """Appends events and keeps the state that they fold to."""

    def __init__(
        self,
        log: EventLog,
        transcript: TranscriptFile,
        artifacts: ArtifactStore,
        observers: Sequence[Observer] = (),
        save: Callable[[RunState], None] | None = None,
        run_path: str = "",
    ) -> None:
        self.log = log
        self.transcript = transcript
        self.artifacts = artifacts
        self._observers = list(observers)
        self._save = save
        self._run_path = run_path
        self._state: RunState | None = None
        self._evidence = EvidenceIndex()
        self._timeouts: list[asyncio.Timeout] = []  # those at work, the outermost first

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
        record = Record(
            seq=last.memory.version + 1,
            at=last.goal.updated_at,
            elapsed=last.elapsed,
            event=event,
        )
        self._state = apply(last, record)

    def outcome(self) -> GoalOutcome:
        """Return the outcome of the current state, with the evidence table."""
        return outcome_of(self.state, self._run_path, evidence=self.evidence())

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
        self._notify(
            lambda observer: (
                observer.on_text(delta) if isinstance(observer, TextObserver) else None
            )
        )

    def show(self, activity: Activity) -> None:
        """Pass an activity to the observers; it is not recorded."""
        self._notify(
            lambda it: (
                it.on_activity(activity) if isinstance(it, ActivityObserver) else None
            )
        )

    def _notify(self, tell: Callable[[Observer], None]) -> None:
        """Notify the observers. One that raises is removed; the run continues."""
        for observer in tuple(self._observers):
            try:
                tell(observer)
            except Exception:
                self._observers.remove(observer)
                _LOGGER.exception(
                    "%s failed and is not called again; the run continues",
                    type(observer).__name__,
                )

    @asynccontextmanager
    async def deadline(self, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
        """Return a context with a time limit of active seconds; None for no limit. `suspended` extends it."""
        async with asyncio.timeout(seconds) as timeout:
            self._timeouts.append(timeout)
            try:
                yield timeout
            finally:
                self._timeouts.remove(timeout)

    @asynccontextmanager
    async def turn_deadline(self) -> AsyncIterator[asyncio.Timeout]:
        """Return a context in which the deadline of the run ends the context, and not the run."""
        outer = next(
            (timeout for timeout in self._timeouts if not timeout.expired()), None
        )
        until = outer.when() if outer is not None else None
        self.lift_deadlines()
        left = None if until is None else until - asyncio.get_running_loop().time()
        async with self.deadline(left) as turn:
            try:
                yield turn
            finally:
                if outer is not None and not turn.expired():
                    outer.reschedule(turn.when())

    def lift_deadlines(self) -> None:
        """Let the work go on without a time limit: a limit was reached, and ends the run after a last check."""
        for timeout in self._timeouts:
            if not timeout.expired():
                timeout.reschedule(None)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Stop the time limits and the clock of the log while a person is asked: that is not active time."""
        loop = asyncio.get_running_loop()
        stopped = [
            (one, until)
            for one in self._timeouts
            if not one.expired() and (until := one.when()) is not None
        ]
        began = loop.time()
        for timeout, _ in stopped:
            timeout.reschedule(None)
        try:
            with self.log.paused():
                yield
        finally:
            for timeout, until in stopped:
                timeout.reschedule(until + loop.time() - began)

    def next_observation(self, ahead: int = 0) -> str:
        """Return the id of the next observation, or of one that is `ahead` places after it."""
        return f"o{self.state.observations + 1 + ahead}"

    def observations(self, number: int) -> tuple[Observation, ...]:
        """Return the observations of a round so far, without those of hidden validators."""
        items = (item for item in self._evidence.items if isinstance(item, Observation))
        return tuple(item for item in items if item.round == number)

    def trail(self) -> Trail:
        """Return the observations and claims so far."""
        return self._evidence.trail(self.artifacts.read, self.transcript.read)


Answer = tuple[ValidatorResult, Path | None]
"""A validator's result, and the file with its output."""


class OutputStore:
    """Stores output files. After a cancellation, which `settle` raises, only both ends of the rest are stored."""

    def __init__(self, artifacts: ArtifactStore) -> None:
        self._artifacts = artifacts
        self._hurried = threading.Event()
        self._cut: asyncio.CancelledError | None = None
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            self._hurried.set()

    async def adopt(self, path: Path) -> ArtifactRef | None:
        """Store a file and remove it; return None if it is empty or missing. Raise RecordError."""
        if path.exists() and path.stat().st_size:
            return await self.take(path)
        path.unlink(missing_ok=True)
        return None

    async def take(self, path: Path) -> ArtifactRef:
        """Store a file and remove it. Raise RecordError, also if it is missing."""
        storing = asyncio.ensure_future(
            asyncio.to_thread(self._artifacts.adopt, path, self._hurried.is_set)
        )
        while not storing.done():
            try:
                await asyncio.wait((storing,))
            except asyncio.CancelledError as cut:
                self._cut = cut
                self._hurried.set()
        return storing.result()

    def settle(self) -> None:
        """Raise the CancelledError that was deferred, if there is one."""
        if self._cut is not None:
            raise self._cut


def kept_traceback(scratch: Callable[[str], Path], redact: Callable[[str], str]) -> str:
    """Write the traceback of the current exception into the run's folder; return its last line and the path."""
    text = redact(traceback.format_exc())
    last_line = text.strip().splitlines()[-1]
    path = scratch(".traceback.txt")
    try:
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:  # such as a full disk
        return f"{last_line}\nits traceback could not be written: {error.strerror}"
    return f"{last_line}\nthe traceback is in {path}"


def check_run(
    answers: Sequence[Answer],
    finished: ValidatorsFinished | None = None,
    diff: str = "",
) -> CheckRun:
    """Return the results of validators as an event, which has the other fields of `finished`, with their output files."""
    results = tuple(result for result, _ in answers)
    event = finished or ValidatorsFinished(
        round=0, results=()
    )  # the run sets the round
    return CheckRun(
        event.model_copy(update={"results": results}),
        tuple(output for _, output in answers),
        diff,
    )


async def observe(
    ran: CheckRun, journal: RunJournal, seen: Snapshot | None = None
) -> ValidatorsFinished:
    """Store the outputs, and number the results as observations on `seen`; return the event with both."""
    store = OutputStore(
        journal.artifacts
    )  # the deadline is kept, even for hundreds of megabytes
    refs = [
        None if output is None else await store.take(output) for output in ran.outputs
    ]
    store.settle()
    results: list[ValidatorResult] = []
    visible: list[Observation] = []
    concealed: list[Observation] = []
    for ahead, (result, kept) in enumerate(
        zip(ran.finished.results, refs, strict=True)
    ):
        ref = kept or journal.artifacts.put(result.feedback.encode(errors="replace"))
        identifier = journal.next_observation(ahead)
        update = {"output": ref, "observation": identifier, "suite": SuiteRecord()}
        results.append(result.model_copy(update=update))
        (concealed if result.hidden else visible).append(
            Observation(
                id=identifier,
                source=f"validator {result.name}",
                facts=result_facts(result),
                names=names_in(*journal.artifacts.ends(ref, 1 << 16)),
                command=result.command,
                round=journal.state.round,
                output=ref,
                before=seen.id if seen else None,
                after=seen.id if seen else None,
            )
        )
    numbered = {
        "results": tuple(results),
        "observations": tuple(visible),
        "concealed": tuple(concealed),
    }
    return ran.finished.model_copy(update=numbered)


def result_facts(result: ValidatorResult) -> tuple[str, ...]:
    colour = "green" if result.passed else "red"
    if result.reason == "flaky":
        return ("flaky", colour)
    if result.exit_code is not None:
        return (f"exit {result.exit_code}", colour)
    return (
        (colour,)
        if result.reason in ("passed", "red")
        else (result.reason.replace("_", " "), colour)
    )
