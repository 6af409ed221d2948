"""Reading a log back, also while it is written. Damage is an error with its byte offset; a torn last line is cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from goalrunner.core.errors import RecordError
from goalrunner.core.events import KINDS, RECORD, SCHEMA_VERSION, Record, Unrecognised
from goalrunner.records.log_lines import BEGINNING, as_current, link


class LogDamage(RecordError):
    """A line of a log is not what was written: which file, from which byte, and what is wrong there."""

    def __init__(self, path: Path, offset: int, what: str, hint: str = "") -> None:
        self.path = path
        self.offset = offset
        super().__init__(f"{path}: {what}", hint)


@dataclass(frozen=True)
class TornTail:
    """The beginning of a line that was never finished: where it begins, and how many bytes there are of it."""

    path: Path
    offset: int
    length: int

    def __str__(self) -> str:
        return f"{self.path}: the last {self.length} bytes, from byte {self.offset}, are half a record and do not count"


@dataclass(frozen=True)
class LogEnd:
    """Where a log ends: its last place (0: empty), its active time in seconds, its whole lines in bytes, its chain."""

    seq: int = 0
    elapsed: float = 0.0
    size: int = 0
    link: str = BEGINNING


def read_records(path: Path, on_torn: Callable[[TornTail], None] | None = None) -> Iterator[Record]:
    """The records of a log in their order, with bounded memory. Raises RecordError for damage.

    A kind of a newer minor schema is an event `unrecognised`; it stays in the file as it is.
    """
    for record, _ in read_places(path, on_torn):
        yield record


def read_places(path: Path, on_torn: Callable[[TornTail], None] | None = None) -> Iterator[tuple[Record, int]]:
    """`read_records`, each record with the byte at which its line begins."""
    offset = 0
    for record, end in _walk(path, on_torn):
        yield record, offset
        offset = end.size


def read_end(path: Path) -> LogEnd:
    """Where a log ends; a missing file is an empty log. Raises RecordError for damage."""
    end = LogEnd()
    if not path.exists():
        return end
    for _, place in _walk(path, None):
        end = place
    return end


def read_lines(path: Path, wait: Callable[[], bool]) -> Iterator[tuple[Record, LogEnd]]:
    """Every line as a record, and where the log ends with it.

    Where no whole line follows, `wait()` says whether to look again. Raises RecordError for damage.
    """
    return _walk(path, None, wait)


def _walk(
    path: Path, on_torn: Callable[[TornTail], None] | None, wait: Callable[[], bool] | None = None
) -> Iterator[tuple[Record, LogEnd]]:
    offset = before = 0
    expected = 1
    chain, chained = BEGINNING, False
    try:
        for line in _lines(path, on_torn, wait):
            read = _parse(line, path, offset)
            if read.seq != expected:
                said = f"record {read.seq} at byte {offset} where {expected} should be"
                raise LogDamage(path, offset, said)
            if (read.p or chained) and read.p != chain:
                raise LogDamage(path, offset, _broken_chain(offset, before if expected > 1 else None))
            chain, chained = link(line[:-1]), bool(read.p)
            before = offset
            offset += len(line)
            expected += 1
            yield read, LogEnd(read.seq, read.elapsed, offset, chain)
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error


def _lines(path: Path, on_torn: Callable[[TornTail], None] | None, wait: Callable[[], bool] | None) -> Iterator[bytes]:
    """Whole lines, newline included; in bytes, they end at \\n alone."""
    with path.open("rb") as file:
        offset = 0
        while True:
            line = file.readline()
            if line.endswith(b"\n"):
                offset += len(line)
                yield line
            elif wait is not None and wait():
                file.seek(offset)
            else:
                if line and on_torn is not None:
                    on_torn(TornTail(path, offset, len(line)))
                return


def _broken_chain(offset: int, before: int | None) -> str:
    """Which of the two lines was changed cannot be known."""
    if before is None:
        return f"the record at byte {offset} is not the first one of its log"
    return f"the record at byte {offset} does not follow the one at byte {before}: one of them is not what was written"


def _parse(line: bytes, path: Path, offset: int) -> Record:
    try:
        record = RECORD.validate_json(line)
    except ValidationError as error:
        return _other_schema(line, path, offset, error)
    if record.v != SCHEMA_VERSION:
        _check_version(record.v, path, offset)
    return record


def _other_schema(line: bytes, path: Path, offset: int, error: ValidationError) -> Record:
    """Return a record of another minor schema. Raise RecordError for everything else."""
    try:
        data: Any = json.loads(line)
        version, seq, p = str(data["v"]), data["seq"], data.get("p", "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _damage(path, offset, "it is no record") from error
    if type(seq) is int and isinstance(p, str):
        if _check_version(version, path, offset):
            return _unrecognised(data, path, offset)
        if version != SCHEMA_VERSION and isinstance(data.get("event"), dict):
            return _older(data, path, offset)
    _check_version(version, path, offset)
    raise _damage(path, offset, str(error.errors()[0]["msg"])) from error


def _older(data: Any, path: Path, offset: int) -> Record:
    """Return a record of an earlier minor schema in the form of this one."""
    try:
        return RECORD.validate_json(json.dumps({**data, "event": as_current(data["event"])}))
    except ValidationError as error:
        raise _damage(path, offset, str(error.errors()[0]["msg"])) from error
    except (AttributeError, TypeError) as error:
        raise _damage(path, offset, "it is no record") from error


def _unrecognised(data: Any, path: Path, offset: int) -> Record:
    """The place of a kind that is not known here; what it says stays in the file."""
    kind = data["event"].get("type") if isinstance(data.get("event"), dict) else None
    if kind in KINDS:
        # What it says more would be lost: a state without it might be wrong.
        said = f"the {kind} at byte {offset} says more than this program understands (schema {data['v']})"
        raise LogDamage(path, offset, said, "install the version of goalrunner that wrote it")
    try:
        return Record.model_validate({**data, "event": Unrecognised(kind=str(kind))})
    except ValidationError as error:
        raise _damage(path, offset, str(error.errors()[0]["msg"])) from error


def _check_version(version: str, path: Path, offset: int) -> bool:
    """Whether a record is of a newer minor schema. Raises RecordError for another major one."""
    ours = SCHEMA_VERSION.split(".")
    major, _, minor = version.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise _damage(path, offset, f"its version is {version!r}")
    if major != ours[0]:
        said = f"the record at byte {offset} has schema version {version}; this program reads {ours[0]}.x"
        raise LogDamage(path, offset, said, "install the version of goalrunner that wrote it")
    return int(minor) > int(ours[1])


def _damage(path: Path, offset: int, why: str) -> LogDamage:
    return LogDamage(path, offset, f"the record at byte {offset} is damaged: {why}")


def follow_records(path: Path, wait: Callable[[], bool]) -> Iterator[Record]:
    """The records of a log, those that are still to come too, in their order. Raises RecordError for damage.

    At the end of the file `wait()` is called: it takes its time, and says whether to look again.
    """
    for record, _ in read_lines(path, wait):
        yield record
