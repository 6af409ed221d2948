"""Doubles of the ports below a run, without a disk: clock, log, transcript, artifacts, observer."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Event, Record
from goalrunner.core.observation import ArtifactRef, TranscriptRef
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog, SystemClock
from goalrunner.records.transcript_file import TranscriptFile


@dataclass
class ManualClock(SystemClock):
    """A clock that moves only by `advance`."""

    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    seconds: float = 0.0

    def now(self) -> datetime:
        """Return the start plus the seconds that have passed."""
        return self.start + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


class MemoryLog(EventLog):
    """A log that keeps its records in a list."""

    def __init__(self, clock: SystemClock | None = None) -> None:
        self.records: list[Record] = []
        self._clock: SystemClock = clock or ManualClock()
        self._waited = 0.0
        self._stood: float | None = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time inside of the context out of the active time."""
        self._stood = since = self._clock.monotonic()
        try:
            yield
        finally:
            self._stood = None
            self._waited += self._clock.monotonic() - since

    def sync(self) -> None:
        """Do nothing: memory has no disk to wait for."""

    def append(self, event: Event) -> Record:
        """Add the event with the next number."""
        record = Record(
            seq=len(self.records) + 1,
            at=self._clock.now().isoformat(),
            elapsed=max(
                (self._clock.monotonic() if self._stood is None else self._stood)
                - self._waited,
                0.0,
            ),
            event=event,
        )
        self.records.append(record)
        return record

    def types(self) -> list[str]:
        """Return the types of the events in order."""
        return [record.event.type for record in self.records]


class MemoryTranscript(TranscriptFile):
    """A transcript that keeps copies of its messages in memory; a place is the number of its message."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def append(self, message: Message) -> TranscriptRef:
        """Add a copy and return its place."""
        line = json.dumps(message).encode()
        self.messages.append(copy.deepcopy(dict(message)))
        sha256 = hashlib.sha256(line).hexdigest()
        return TranscriptRef(
            offset=len(self.messages) - 1, length=len(line), sha256=sha256
        )

    def read(self, ref: TranscriptRef) -> Message:
        """Return the message at that place."""
        return self.messages[ref.offset]


class MemoryArtifacts(ArtifactStore):
    """Artifacts in memory, by hash."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def put(self, data: bytes) -> ArtifactRef:
        """Store bytes."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._kept[sha256] = data
        return ArtifactRef(sha256=sha256, size=len(data))

    def adopt(
        self, path: Path, hurried: Callable[[], bool] = lambda: False
    ) -> ArtifactRef:
        """Store a file's bytes and remove it; `hurried` is ignored."""
        ref = self.put(path.read_bytes())
        path.unlink()
        return ref

    def read(self, ref: ArtifactRef) -> bytes:
        """Return the bytes. Raise RecordError if they were never stored."""
        if ref.sha256 not in self._kept:
            raise RecordError(f"no artifact {ref.sha256}")
        return self._kept[ref.sha256]

    def ends(self, ref: ArtifactRef, each: int) -> tuple[bytes, bytes]:
        """Return both ends, or all bytes and nothing."""
        data = self.read(ref)
        return (data, b"") if len(data) <= 2 * each else (data[:each], data[-each:])


@dataclass
class RecordingObserver:
    """An observer that keeps records and text."""

    records: list[Record] = field(default_factory=list)
    text: str = ""

    def on_record(self, record: Record) -> None:
        """Keep the record."""
        self.records.append(record)

    def on_text(self, delta: str) -> None:
        """Keep the text."""
        self.text += delta
