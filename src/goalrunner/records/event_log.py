"""The log of a run: numbered events with time and link, and the lock of its only writer."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any, Protocol, Self

from goalrunner.core.errors import RecordError
from goalrunner.core.events import (
    RECORD,
    Event,
    MessageRecorded,
    Record,
    RoundFinished,
    SecretsReplaced,
    SnapshotTaken,
    ToolResultRecorded,
    UsageRecorded,
)
from goalrunner.core.ports import Clock
from goalrunner.records.log_lines import AppendFile, encode, link, without_surrogates
from goalrunner.records.reading import LogEnd, TornTail, read_end
from goalrunner.records.redaction import Redactor


class LogInUse(RecordError):
    """Another process writes this log; `owner` describes it."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.owner = owner
        super().__init__(f"{folder} is in use by {owner}", "wait for it to end")


class WriterLock:
    """Held from creation to `close`. Raise LogInUse, with its owner, if another writer holds it, and RecordError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise RecordError(f"cannot open {path}: {error.strerror}", "check GOAL_HOME and its permissions") from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._handle)
            raise LogInUse(path.parent, owner(path)) from error
        with contextlib.suppress(OSError):  # the name is for people; the lock holds without it
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)

    def close(self) -> None:
        """Release the lock; closing twice does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def owner(path: Path) -> str:
    """Return a description of the process that holds, or held, the lock."""
    try:
        data = json.loads(path.read_bytes())
        return f"process {data['pid']} on {data['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def is_written(log: Path) -> bool:
    """Return whether a process is writing that log now. A lock that cannot be read counts as held."""
    try:
        handle = os.open(lock_of(log), os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def lock_of(log: Path) -> Path:
    """Return the lock file of a log."""
    return log.with_suffix(".lock")


class Syncable(Protocol):
    """What events refer to: a transcript, or artifacts."""

    @property
    def is_dirty(self) -> bool:
        """Whether something was written that is not durable yet."""
        ...

    def sync(self) -> None:
        """Make it durable. Raise RecordError if the disk refuses."""
        ...


_NO_WAIT = (MessageRecorded, RoundFinished, SecretsReplaced, SnapshotTaken, ToolResultRecorded, UsageRecorded)
"""Events after which the runner only records, until a `sync` or an event that waits for the disk: no effect lies between."""


class EventLog:
    """The port `Log` over a file. Continues a log that is there; one writer at a time.

    Every event is in the file when `append` returns, so killing the process loses nothing. The wait for the disk, which
    matters in a power cut, comes before the next effect: what events refer to becomes durable first, then the events.

    `start` is the end of the log as its reader found it; without it the log is read here. A tail that a crash left is cut
    and passed to `on_torn`. Raise RecordError if the log is damaged, in use, or cannot be written.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        redactor: Redactor,
        start: LogEnd | None = None,
        on_torn: Callable[[TornTail], None] | None = None,
    ) -> None:
        self._clock = clock
        self._redactor = redactor
        self._lock = WriterLock(lock_of(path))
        try:
            end = read_end(path) if start is None else start
            self._file = _opened(path, end)
        except BaseException:
            self._lock.close()
            raise
        if self._file.torn and on_torn is not None:
            on_torn(TornTail(path, end.size, self._file.torn))
        self._parts: list[Syncable] = []
        self._seq = end.seq
        self._link = end.link
        self._before = end.elapsed
        self._opened = clock.monotonic()
        self._stood: float | None = None

    @property
    def elapsed(self) -> float:
        """Return the seconds of active time since the run began, those of earlier processes included."""
        now = self._clock.monotonic() if self._stood is None else self._stood
        return self._before + max(0.0, now - self._opened)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the time inside of the context, in which a person decides, out of the active time."""
        self._stood = since = self._clock.monotonic()
        try:
            yield
        finally:
            self._stood = None
            self._opened += self._clock.monotonic() - since

    def append(self, event: Event) -> Record:
        """Write one event, secrets replaced, and return its record. Raise RecordError if it cannot be written whole."""
        at = self._clock.now().astimezone(UTC).isoformat(timespec="milliseconds")
        record = Record(seq=self._seq + 1, at=at, elapsed=round(self.elapsed, 6), p=self._link, event=event)
        written = self._written(record)
        line = encode(written.model_dump(mode="python"))
        wait = not isinstance(event, _NO_WAIT)
        if wait:
            self._sync_parts()
        self._file.append(line, wait=wait)
        self._seq, self._link = written.seq, link(line)
        return written

    def sync_first(self, part: Syncable) -> None:
        """Make `part` durable before the events that refer to it."""
        self._parts.append(part)

    def sync(self) -> None:
        """Wait until all events, and what they refer to, are durable. Raise RecordError if the disk refuses."""
        self._sync_parts()
        self._file.sync()

    def _sync_parts(self) -> None:
        dirty = [part for part in self._parts if part.is_dirty]
        if len(dirty) < 2:
            for part in dirty:
                part.sync()
            return
        with ThreadPoolExecutor(len(dirty)) as threads:  # all at once: the disk then does it in one go
            list(threads.map(lambda part: part.sync(), dirty))

    def close(self) -> None:
        """Close log and lock; closing twice does nothing."""
        with contextlib.suppress(RecordError):
            self.sync()
        self._file.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _written(self, record: Record) -> Record:
        """Return the record as it will be read back: secrets and lone surrogates replaced."""
        before = record.model_dump(mode="python")
        after = {**before, "event": self._clean(before["event"])}
        return record if after == before else RECORD.validate_python(after)

    def _clean(self, value: Any) -> Any:
        """Return a value without secrets. The schema's own words stay: no record could be read without them."""
        match value:
            case str():
                clean = without_surrogates(self._redactor.text(value))
                return value if clean == value or value in _vocabulary() else clean
            case dict():
                return {self._clean(key): self._clean(item) for key, item in value.items()}
            case tuple():
                return tuple(self._clean(item) for item in value)
            case _:
                return value


def _opened(path: Path, end: LogEnd) -> AppendFile:
    file = AppendFile(path)
    if file.size != end.size:
        file.close()
        raise RecordError(f"{file.path}: it ends at byte {file.size}, and was read to byte {end.size}", "try again")
    return file


@cache
def _vocabulary() -> frozenset[str]:
    """Return every word of the schema: field names, tags, enumerations."""
    words: set[str] = set()

    def collect(node: Any) -> None:
        match node:
            case dict():
                words.update(node.get("properties", {}))
                words.update(word for word in (node.get("const"), *node.get("enum", ())) if isinstance(word, str))
                for item in node.values():
                    collect(item)
            case list():
                for item in node:
                    collect(item)

    collect(RECORD.json_schema())
    return frozenset(words)
