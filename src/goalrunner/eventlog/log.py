"""The log of a run: events, each in its place, with its time and its link. Owns numbering and active time; folds nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any, Self

from goalrunner.errors import RecordError
from goalrunner.eventlog.append import AppendFile
from goalrunner.eventlog.chain import link
from goalrunner.eventlog.line import encode, without_surrogates
from goalrunner.eventlog.lock import WriterLock, lock_of
from goalrunner.eventlog.reading import LogEnd, TornTail, read_end
from goalrunner.events import RECORD, Event, Record
from goalrunner.ports import Clock
from goalrunner.redaction import Redactor


class EventLog:
    """The port `Log` over a file. Continues a log that is there; one writer at a time.

    `start` is the end of the log as its reader found it; without it the log is read here. A tail that a crash left is
    cut and told to `on_torn`. Raises RecordError when the log is damaged, in use, or not to be written.
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
        self._seq = end.seq
        self._link = end.link
        self._before = end.elapsed
        self._opened = clock.monotonic()
        self._stood: float | None = None

    @property
    def elapsed(self) -> float:
        """Seconds of active time since the run began, those of earlier processes included."""
        now = self._clock.monotonic() if self._stood is None else self._stood
        return self._before + max(0.0, now - self._opened)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A time that a person takes: it is no active time."""
        self._stood = since = self._clock.monotonic()
        try:
            yield
        finally:
            self._stood = None
            self._opened += self._clock.monotonic() - since

    def append(self, event: Event) -> Record:
        """Write one event, secrets replaced, and give it its place. Raises RecordError when it cannot be written whole."""
        at = self._clock.now().astimezone(UTC).isoformat(timespec="milliseconds")
        record = Record(seq=self._seq + 1, at=at, elapsed=round(self.elapsed, 6), p=self._link, event=event)
        written = self._written(record)
        line = encode(written.model_dump(mode="python"))
        self._file.append(line)
        self._seq, self._link = written.seq, link(line)
        return written

    def close(self) -> None:
        """Give log and lock back; closing twice does nothing."""
        self._file.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _written(self, record: Record) -> Record:
        """The record as it will be read back: secrets and lone surrogates replaced."""
        before = record.model_dump(mode="python")
        after = {**before, "event": self._clean(before["event"])}
        return record if after == before else RECORD.validate_python(after)

    def _clean(self, value: Any) -> Any:
        """The schema's own words stay, whatever somebody has for a password: without them no record can be read."""
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
    """Every word that the schema fixes: field names, tags, enumerations."""
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
