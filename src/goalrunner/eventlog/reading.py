"""Reading a log back. Owns what counts as damage; changes nothing on disk.

A tail without a newline is what a crash leaves: it is passed over and told. Anything else that is not a record in its
place is damage, and an error that names file and byte.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from goalrunner.errors import RecordError
from goalrunner.events import RECORD, SCHEMA_VERSION, Record


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
    """Where a log ends: its last place (0: empty), its active time in seconds, and its whole lines in bytes."""

    seq: int = 0
    elapsed: float = 0.0
    size: int = 0


def read_records(path: Path, on_torn: Callable[[TornTail], None] | None = None) -> Iterator[Record]:
    """The records of a log in their order, with bounded memory. Raises RecordError for damage.

    Kinds of a newer minor schema that are not known here are passed over; they stay in the file.
    """
    for record, _ in _walk(path, on_torn):
        if record is not None:
            yield record


def read_end(path: Path) -> LogEnd:
    """Where a log ends; a missing file is an empty log. Raises RecordError for damage."""
    end = LogEnd()
    if not path.exists():
        return end
    for record, place in _walk(path, None):
        end = LogEnd(place.seq, record.elapsed if record else end.elapsed, place.size)
    return end


def _walk(path: Path, on_torn: Callable[[TornTail], None] | None) -> Iterator[tuple[Record | None, LogEnd]]:
    offset = 0
    expected = 1
    try:
        with path.open("rb") as file:
            for line in file:  # in bytes, lines end at \n alone
                if not line.endswith(b"\n"):
                    if on_torn is not None:
                        on_torn(TornTail(path, offset, len(line)))
                    return
                record, seq = _parse(line, path, offset)
                if seq != expected:
                    raise RecordError(f"{path}: record {seq} at byte {offset} where {expected} should be")
                offset += len(line)
                expected += 1
                yield record, LogEnd(seq, 0.0, offset)
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error


def _parse(line: bytes, path: Path, offset: int) -> tuple[Record | None, int]:
    """A record and its place; no record for a kind of a newer minor schema."""
    try:
        record = RECORD.validate_json(line)
    except ValidationError as error:
        return None, _newer(line, path, offset, error)
    if record.v != SCHEMA_VERSION:
        _check_version(record.v, path, offset)
    return record, record.seq


def _newer(line: bytes, path: Path, offset: int, error: ValidationError) -> int:
    """The place of a record of a newer minor schema. Raises RecordError for everything else."""
    try:
        data: Any = json.loads(line)
        version, seq = str(data["v"]), data["seq"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _damage(path, offset, "it is no record") from error
    if _check_version(version, path, offset) and type(seq) is int:
        return seq
    raise _damage(path, offset, str(error.errors()[0]["msg"])) from error


def _check_version(version: str, path: Path, offset: int) -> bool:
    """Whether a record is of a newer minor schema. Raises RecordError for another major one."""
    ours = SCHEMA_VERSION.split(".")
    major, _, minor = version.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise _damage(path, offset, f"its version is {version!r}")
    if major != ours[0]:
        raise RecordError(
            f"{path}: the record at byte {offset} has schema version {version}; this program reads {ours[0]}.x",
            "install the version of goalrunner that wrote it",
        )
    return int(minor) > int(ours[1])


def _damage(path: Path, offset: int, why: str) -> RecordError:
    return RecordError(f"{path}: the record at byte {offset} is damaged: {why}")
