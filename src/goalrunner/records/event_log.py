"""The log of a run: numbered events, each with a time and a link to the one before.

It can be read at any time, and is written by one process at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from goalrunner.core.errors import RecordError, record_errors
from goalrunner.core.events import (
    RECORD,
    SCHEMA_VERSION,
    Event,
    GoalCreated,
    MessageRecorded,
    Record,
    RoundFinished,
    SecretsReplaced,
    SnapshotTaken,
    ToolResultRecorded,
    UsageRecorded,
)
from goalrunner.records.files import AppendFile, FolderNames, open_regular
from goalrunner.records.redaction import Redactor
from goalrunner.records.writer_lock import WriterLock, lock_of


def encode(value: Any) -> bytes:
    """Return a JSON value as a line of ASCII without its newline.

    Lone surrogates become U+FFFD. Raise RecordError for what JSON cannot express, NaN
    included.
    """
    try:
        line = json.dumps(value, allow_nan=False, separators=(",", ":"))
        # A pair of surrogates, or a lone one, which readers refuse.
        if "\\ud" in line:
            text = json.dumps(value, ensure_ascii=False)
            data = text.encode("utf-16-le", "surrogatepass")
            valid_text = data.decode("utf-16-le", "replace")
            line = json.dumps(json.loads(valid_text), separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(f"cannot write a record: {error}") from error
    return line.encode("ascii")


def link(line: bytes) -> str:
    """Return the link to a line (without its newline) that the next line holds.

    The first line holds `link(b"")`.
    """
    return hashlib.sha256(line).hexdigest()[:16]


BEGINNING = link(b"")
_LOGGER = logging.getLogger("goalrunner")


class LogDamage(RecordError):
    """A line of a log is not what was written; `offset` is the byte where it begins."""

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
    """The end of a log."""

    seq: int = 0
    """The last number; 0: the log is empty."""
    elapsed: float = 0.0
    """Active time in seconds."""
    size: int = 0
    """Bytes in whole lines."""
    link: str = BEGINNING
    start: int = 0
    """The byte at which the last line begins."""


def read_records(
    path: Path, wait: Callable[[], bool] | None = None
) -> Iterator[Record]:
    """Yield the records of a log in order, with bounded memory.

    A last line that was never finished is left out. If the log is still written,
    `wait()` is called at the end of the file; it returns whether to look again. Raise
    RecordError for damage.
    """
    for record, _ in read_lines(path, wait):
        yield record


def read_end(path: Path) -> LogEnd:
    """Return the end of a log; a missing file is an empty log.

    Raise RecordError for damage.
    """
    last_end = LogEnd()
    if path.exists():
        for _, end in read_lines(path):
            last_end = end
    return last_end


def has_begun(path: Path) -> bool:
    """Return whether the run of a log has begun; without, it cannot be resumed.

    Raise RecordError for damage.
    """
    if not path.exists():
        return False
    return any(record.event.type == "run_started" for record in read_records(path))


def read_lines(
    path: Path, wait: Callable[[], bool] | None = None
) -> Iterator[tuple[Record, LogEnd]]:
    """Yield each record with the end of the log up to it.

    Raise RecordError for damage.
    """
    end = LogEnd()
    with (
        record_errors(f"cannot read {path}", ""),
        open(open_regular(path, os.O_RDONLY), "rb") as file,  # noqa: PTH123
    ):
        while True:
            line = file.readline()
            if line.endswith(b"\n"):
                record = _parse(line, path, end.size)
                _check_order(record, end, path)
                end = LogEnd(
                    seq=record.seq,
                    elapsed=record.elapsed,
                    size=file.tell(),
                    link=link(line[:-1]),
                    start=end.size,
                )
                yield record, end
            elif wait is not None and wait():
                file.seek(end.size)
            else:
                return


def _check_order(record: Record, end: LogEnd, path: Path) -> None:
    """Raise LogDamage if a record does not follow the end of the log before it."""
    if (record.seq, record.p) == (end.seq + 1, end.link):
        return
    problem = "is not the first one of its log"
    if end.seq:
        problem = (
            f"does not follow the one at byte {end.start}: "
            "one of them differs from what was recorded"
        )
    raise LogDamage(path, end.size, f"the record at byte {end.size} {problem}")


def _parse(line: bytes, path: Path, offset: int) -> Record:
    try:
        record = RECORD.validate_json(line)
    except ValidationError as error:
        raise _invalid_record(error, line, path, offset) from None
    # A newer minor version only adds events, so its records can be read.
    if _major(record.v) != _major(SCHEMA_VERSION):
        raise _wrong_version(record.v, path, offset)
    return record


def _invalid_record(
    error: ValidationError, line: bytes, path: Path, offset: int
) -> LogDamage:
    """Return the error for a line that is no record of this program's schema."""
    try:
        version = str(json.loads(line)["v"])
        reason = error.errors()[0]["msg"]
    except (ValueError, KeyError, TypeError, RecursionError):
        version, reason = SCHEMA_VERSION, "it is not a record"
    if version != SCHEMA_VERSION:
        return _wrong_version(version, path, offset)
    return LogDamage(path, offset, f"the record at byte {offset} is damaged: {reason}")


def _wrong_version(version: str, path: Path, offset: int) -> LogDamage:
    return LogDamage(
        path,
        offset,
        f"the record at byte {offset} has schema version {version}; "
        f"this program reads {SCHEMA_VERSION}",
        "install the version of goalrunner that wrote it",
    )


def _major(version: str) -> str:
    return version.partition(".")[0]


class SystemClock:
    """The time in UTC, and in seconds of a monotonic clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


LogMirror = Callable[[Sequence[tuple[int, bytes]]], None]
"""Is called before each effect with the lines since the last call: number, and line
without its newline. What it raises keeps the effect from happening.
"""


def no_mirror(lines: Sequence[tuple[int, bytes]]) -> None:
    """Do nothing: the log is in its file alone."""


# These events are not flushed to the disk by themselves: nothing but recording follows
# until the next other event or `sync`, which flushes them before anything happens.
_NO_WAIT = (
    # The start of the run follows it at once.
    GoalCreated,
    MessageRecorded,
    RoundFinished,
    SecretsReplaced,
    SnapshotTaken,
    ToolResultRecorded,
    UsageRecorded,
)


class RecordSequence:
    """Makes the records of a log: numbered, timed, linked, secrets replaced.

    The sequence goes on after `end`, the end of an existing log.
    """

    def __init__(
        self, clock: SystemClock, redactor: Redactor, end: LogEnd | None = None
    ) -> None:
        end = end or LogEnd()
        self._clock = clock
        self._redactor = redactor
        self._seq = end.seq
        self._link = end.link
        self._earlier_elapsed = end.elapsed
        self._opened_at = clock.monotonic()
        self._paused_at: float | None = None

    @property
    def elapsed(self) -> float:
        """Seconds of active time."""
        now = self._clock.monotonic() if self._paused_at is None else self._paused_at
        return self._earlier_elapsed + max(0.0, now - self._opened_at)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the active time while the context is open."""
        began = self._clock.monotonic()
        self._paused_at = began
        try:
            yield
        finally:
            self._paused_at = None
            self._opened_at += self._clock.monotonic() - began

    def make(self, event: Event) -> tuple[Record, bytes]:
        """Return the record of the next event, and its line.

        It is the next one of the log only after `advance`. Raise RecordError for what
        JSON cannot express.
        """
        now = self._clock.now().astimezone(UTC)
        record = Record(
            seq=self._seq + 1,
            at=now.isoformat(timespec="milliseconds"),
            elapsed=round(self.elapsed, 6),
            p=self._link,
            event=event,
        )
        data = record.model_dump(mode="python")
        data["event"] = self._redactor.json(data["event"], keep=_schema_words())
        line = encode(data)
        # The record as it will be read: without secrets.
        return RECORD.validate_json(line), line

    def advance(self, record: Record, line: bytes) -> None:
        """Let the next record follow this one, which `make` returned."""
        self._seq = record.seq
        self._link = link(line)


class EventLog(RecordSequence):
    """The log of a run in a file. It continues an existing log; one writer at a time.

    Every event is in the file when `append` returns, so killing the process loses
    nothing. The wait for the disk, which matters in a power cut, comes before the next
    effect: what events refer to becomes durable first, then the events.

    `end` is where the log ended when it was read; without it, the log is read here. A
    last line that a crash left unfinished is cut, with a warning. Raise RecordError if
    the log is damaged, in use, or cannot be written.

    `mirror` gets the lines before they become durable here.
    """

    def __init__(
        self,
        path: Path,
        clock: SystemClock,
        redactor: Redactor,
        end: LogEnd | None = None,
        mirror: LogMirror = no_mirror,
    ) -> None:
        self._mirror = mirror
        self._unmirrored: list[tuple[int, bytes]] = []
        self._lock = WriterLock(lock_of(path))
        with contextlib.ExitStack() as undo:
            undo.callback(self._lock.close)
            if end is None:
                end = read_end(path)
            self.names = FolderNames(path.parent)
            """The names in the folder of the log."""
            self._file = AppendFile(path, self.names)
            undo.callback(self._file.close)
            if self._file.size != end.size:
                raise RecordError(
                    f"{path}: it ends at byte {self._file.size}, "
                    f"and was read to byte {end.size}",
                    "try again",
                )
            undo.pop_all()
        if self._file.torn:
            _LOGGER.warning(
                "%s: the last %d bytes were an incomplete record and are removed",
                path,
                self._file.torn,
            )
        self._earlier_syncs: list[Callable[[], None]] = []
        super().__init__(clock, redactor, end)

    def append(self, event: Event) -> Record:
        """Write one event, secrets replaced, and return its record.

        Raise RecordError if it cannot be written whole.
        """
        written, line = self.make(event)
        wait = not isinstance(event, _NO_WAIT)
        if wait:
            self._sync_earlier((written.seq, line))
        self._file.append(line, wait=wait)
        if not wait:
            self._unmirrored.append((written.seq, line))
        self.advance(written, line)
        return written

    def sync_first(self, sync: Callable[[], None]) -> None:
        """Call `sync` before events are made durable.

        It makes durable what they refer to.
        """
        self._earlier_syncs.append(sync)

    def sync(self) -> None:
        """Wait until all events, and what they refer to, are durable.

        Raise RecordError if the disk refuses.
        """
        self._sync_earlier()
        self._file.sync()

    def _sync_earlier(self, *new_lines: tuple[int, bytes]) -> None:
        for sync in self._earlier_syncs:
            sync()
        lines = [*self._unmirrored, *new_lines]
        if lines:
            self._mirror(lines)
            self._unmirrored.clear()

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
def _schema_words() -> frozenset[str]:
    """Return every word of the schema: field names, tags, enumerations.

    Without them, no record could be read back.
    """
    words: set[str] = set()
    # The JSON Schema, with the same words, takes twenty times as long.
    unvisited: list[Any] = [dict(RECORD.core_schema)]
    while unvisited:
        node = unvisited.pop()
        if isinstance(node, list):
            unvisited += node
        elif isinstance(node, dict):
            unvisited += node.values()
            for key in ("fields", "expected", "members"):
                for member in node.get(key, ()):
                    # Members of an enumeration have their text as a value.
                    word = getattr(member, "value", member)
                    if isinstance(word, str):
                        words.add(word)
    return frozenset(words)
