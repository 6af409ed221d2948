"""The log of a run: numbered events with time and link, read at any time, and written by one process at a time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from goalrunner.core.errors import RecordError, record_errors
from goalrunner.core.events import (
    RECORD,
    SCHEMA_VERSION,
    Event,
    MessageRecorded,
    Record,
    RoundFinished,
    SecretsReplaced,
    SnapshotTaken,
    ToolResultRecorded,
    UsageRecorded,
)
from goalrunner.records.files import (
    AppendFile,
    SystemClock,
    WriterLock,
    lock_of,
    open_regular,
)
from goalrunner.records.redaction import Redactor


def encode(value: Any) -> bytes:
    """Return a JSON value as a line of ASCII without its newline; lone surrogates become U+FFFD.

    Raise RecordError for what JSON cannot express, NaN included.
    """
    try:
        line = json.dumps(value, allow_nan=False, separators=(",", ":"))
        if "\\ud" in line:  # a pair of surrogates, or a lone one, which readers refuse
            text = json.dumps(value, ensure_ascii=False).encode(
                "utf-16-le", "surrogatepass"
            )
            line = json.dumps(
                json.loads(text.decode("utf-16-le", "replace")), separators=(",", ":")
            )
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"cannot write a record: {error}") from error
    return line.encode("ascii")


def link(line: bytes) -> str:
    """Return the link to a line (without its newline) that the next line holds; the first line holds `link(b"")`."""
    return hashlib.sha256(line).hexdigest()[:16]


BEGINNING = link(b"")
_LOGGER = logging.getLogger("goalrunner")


class LogDamage(RecordError):
    """A line of a log is not what was written; `offset` is the byte at which it begins."""

    def __init__(
        self,
        path: Path,
        offset: int,
        what: str,
        hint: str = "start a new run: goal run GOAL_FILE",
    ) -> None:
        self.path = path
        self.offset = offset
        super().__init__(f"{path}: {what}", hint)


@dataclass(frozen=True)
class LogEnd:
    """The end of a log: its last number (0: empty), active time in seconds, bytes in whole lines, and link.

    `start` is the byte at which the last line begins.
    """

    seq: int = 0
    elapsed: float = 0.0
    size: int = 0
    link: str = BEGINNING
    start: int = 0


def read_records(
    path: Path, wait: Callable[[], bool] | None = None
) -> Iterator[Record]:
    """Yield the records of a log in order, with bounded memory. Raise RecordError for damage.

    A last line that was never finished is left out. If the log is still written, `wait()` is called at the end of the
    file; it returns whether to look again.
    """
    for record, _ in read_lines(path, wait):
        yield record


def read_end(path: Path) -> LogEnd:
    """Return the end of a log; a missing file is an empty log. Raise RecordError for damage."""
    end = LogEnd()
    for _, end in read_lines(path) if path.exists() else ():  # noqa: B007 - the last one is kept
        pass
    return end


def read_lines(
    path: Path, wait: Callable[[], bool] | None = None
) -> Iterator[tuple[Record, LogEnd]]:
    """Yield each record with the end of the log up to it. Raise RecordError for damage."""
    end = LogEnd()
    with (
        record_errors(f"cannot read {path}", ""),
        open(open_regular(path, os.O_RDONLY), "rb") as file,  # noqa: PTH123
    ):
        while True:
            line = file.readline()
            if line.endswith(b"\n"):
                offset, record = end.size, _parse(line, path, end.size)
                if (record.seq, record.p) != (end.seq + 1, end.link):
                    before = f"the one at byte {end.start}: one of them differs from what was recorded"
                    problem = (
                        f"does not follow {before}"
                        if end.seq
                        else "is not the first one of its log"
                    )
                    raise LogDamage(
                        path, offset, f"the record at byte {offset} {problem}"
                    )
                end = LogEnd(
                    record.seq, record.elapsed, file.tell(), link(line[:-1]), offset
                )
                yield record, end
            elif wait is not None and wait():
                file.seek(end.size)
            else:
                return


def _parse(line: bytes, path: Path, offset: int) -> Record:
    try:
        record = RECORD.validate_json(line)
        version, why = record.v, ""
    except ValidationError as error:
        try:
            version, why = str(json.loads(line)["v"]), error.errors()[0]["msg"]
        except (ValueError, KeyError, TypeError, RecursionError):
            version, why = SCHEMA_VERSION, "it is not a record"
    if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0] or (
        why and version != SCHEMA_VERSION
    ):
        problem = f"the record at byte {offset} has schema version {version}; this program reads {SCHEMA_VERSION}"
        raise LogDamage(
            path, offset, problem, "install the version of goalrunner that wrote it"
        )
    if why:
        raise LogDamage(path, offset, f"the record at byte {offset} is damaged: {why}")
    return record


_NO_WAIT = (
    MessageRecorded,
    RoundFinished,
    SecretsReplaced,
    SnapshotTaken,
    ToolResultRecorded,
    UsageRecorded,
)
"""Events after which the runner only records, until a `sync` or an event that waits for the disk: no effect lies between."""


class EventLog:
    """The port `Log` over a file. Continues a log that is there; one writer at a time.

    Every event is in the file when `append` returns, so killing the process loses nothing. The wait for the disk, which
    matters in a power cut, comes before the next effect: what events refer to becomes durable first, then the events.

    `start` is the end of the log as its reader found it; without it the log is read here. A last line that a crash left
    unfinished is cut, with a warning. Raise RecordError if the log is damaged, in use, or cannot be written.
    """

    def __init__(
        self,
        path: Path,
        clock: SystemClock,
        redactor: Redactor,
        start: LogEnd | None = None,
    ) -> None:
        self._clock = clock
        self._redactor = redactor
        self._lock = WriterLock(lock_of(path))
        with contextlib.ExitStack() as undo:
            undo.callback(self._lock.close)
            end = read_end(path) if start is None else start
            self._file = AppendFile(path)
            undo.callback(self._file.close)
            if self._file.size != end.size:
                what = f"it ends at byte {self._file.size}, and was read to byte {end.size}"
                raise RecordError(f"{path}: {what}", "try again")
            undo.pop_all()
        if self._file.torn:
            _LOGGER.warning(
                "%s: the last %d bytes were an incomplete record and are removed",
                path,
                self._file.torn,
            )
        self._parts: list[Callable[[], None]] = []
        self._seq = end.seq
        self._link = end.link
        self._before = end.elapsed
        self._opened = clock.monotonic()
        self._stood: float | None = None

    @property
    def elapsed(self) -> float:
        now = self._clock.monotonic() if self._stood is None else self._stood
        return self._before + max(0.0, now - self._opened)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._stood = since = self._clock.monotonic()
        try:
            yield
        finally:
            self._stood = None
            self._opened += self._clock.monotonic() - since

    def append(self, event: Event) -> Record:
        """Write one event, secrets replaced, and return its record. Raise RecordError if it cannot be written whole."""
        at = self._clock.now().astimezone(UTC).isoformat(timespec="milliseconds")
        record = Record(
            seq=self._seq + 1,
            at=at,
            elapsed=round(self.elapsed, 6),
            p=self._link,
            event=event,
        )
        data = record.model_dump(mode="python")
        line = encode(
            {**data, "event": self._redactor.json(data["event"], keep=_vocabulary())}
        )
        written = RECORD.validate_json(line)
        wait = not isinstance(event, _NO_WAIT)
        if wait:
            self._sync_parts()
        self._file.append(line, wait=wait)
        self._seq, self._link = written.seq, link(line)
        return written

    def sync_first(self, sync: Callable[[], None]) -> None:
        """Call `sync` before events are made durable; it makes durable what they refer to."""
        self._parts.append(sync)

    def sync(self) -> None:
        """Wait until all events, and what they refer to, are durable. Raise RecordError if the disk refuses."""
        self._sync_parts()
        self._file.sync()

    def _sync_parts(self) -> None:
        for sync in self._parts:
            sync()

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


@cache
def _vocabulary() -> frozenset[str]:
    """Return every word of the schema (field names, tags, enumerations), without which no record could be read back."""
    words: set[str] = set()
    waiting: list[Any] = [
        dict(RECORD.core_schema)
    ]  # the JSON Schema, with the same words, takes twenty times as long
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            values = (
                getattr(word, "value", word)
                for word in (*node.get("expected", ()), *node.get("members", ()))
            )
            words.update(
                word
                for word in (*node.get("fields", ()), *values)
                if isinstance(word, str)
            )
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return frozenset(words)
