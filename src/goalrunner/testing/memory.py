"""Log, transcript, artifacts and clock that live in memory."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from goalrunner.core.errors import RecordError
from goalrunner.core.events import Event, Record
from goalrunner.core.observation import ArtifactRef, TranscriptRef
from goalrunner.core.ports import Clock, Message


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._seconds = 0.0

    def now(self) -> datetime:
        """The start plus what has passed."""
        return self._start + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """Seconds that have passed."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._seconds += seconds


class MemoryLog:
    """A log that keeps its records in a list."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.records: list[Record] = []
        self._clock: Clock = clock or ManualClock()
        self._waited = 0.0
        self._stood: float | None = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The time in it is no active time."""
        self._stood = since = self._clock.monotonic()
        try:
            yield
        finally:
            self._stood = None
            self._waited += self._clock.monotonic() - since

    def append(self, event: Event) -> Record:
        """Keep the event under the next number."""
        record = Record(
            seq=len(self.records) + 1,
            at=self._clock.now().isoformat(),
            elapsed=max((self._clock.monotonic() if self._stood is None else self._stood) - self._waited, 0.0),
            event=event,
        )
        self.records.append(record)
        return record

    def types(self) -> list[str]:
        """The tags in order: what a test of a trajectory compares."""
        return [record.event.type for record in self.records]


class MemoryTranscript:
    """A transcript that keeps its messages in memory."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._places: dict[int, Message] = {}
        self._end = 0

    def append(self, message: Message) -> TranscriptRef:
        """Keep a copy and say where it would stand."""
        line = json.dumps(message).encode()
        ref = TranscriptRef(offset=self._end, length=len(line), sha256=hashlib.sha256(line).hexdigest())
        self._places[self._end] = copy.deepcopy(dict(message))
        self.messages.append(self._places[self._end])
        self._end += len(line) + 1
        return ref

    def read(self, ref: TranscriptRef) -> Message:
        """The message at that place."""
        return self._places[ref.offset]


class MemoryArtifacts:
    """Artifacts in memory, by hash."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def put(self, data: bytes) -> ArtifactRef:
        """Keep bytes."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._kept[sha256] = data
        return ArtifactRef(sha256=sha256, size=len(data))

    def adopt(self, path: Path, hurried: Callable[[], bool] = lambda: False) -> ArtifactRef:
        """Keep a file's bytes and remove it. All of them: that takes no time."""
        ref = self.put(path.read_bytes())
        path.unlink()
        return ref

    def read(self, ref: ArtifactRef) -> bytes:
        """The bytes; RecordError when they were never kept."""
        try:
            return self._kept[ref.sha256]
        except KeyError:
            raise RecordError(f"no artifact {ref.sha256}") from None

    def ends(self, ref: ArtifactRef, each: int) -> tuple[bytes, bytes]:
        """Both ends, or everything and nothing."""
        data = self.read(ref)
        return (data, b"") if len(data) <= 2 * each else (data[:each], data[-each:])

    def path(self, ref: ArtifactRef) -> Path:
        """There is no file behind it."""
        raise RecordError(f"artifact {ref.sha256} lies in memory")


class RecordingObserver:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.text = ""

    def on_record(self, record: Record) -> None:
        """Keep the record."""
        self.records.append(record)

    def on_text(self, delta: str) -> None:
        """Keep the text."""
        self.text += delta
