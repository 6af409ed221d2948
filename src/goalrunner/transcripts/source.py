"""The JSON records of a transcript in a file, a folder or a pipe."""

from __future__ import annotations

import codecs
import json
import os
import re
import shlex
import shutil
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO

from goalrunner.core.errors import UsageError
from goalrunner.transcripts.json_elements import (
    JsonPart,
    TextFollows,
    grouped_parts,
    json_parts,
)

HINT = "goal status --list-formats lists the formats; --format NAME forces one."
STDIN_NAME = "-"

# Limits keep a file that is no transcript from filling the memory.
LONGEST_ROW = 64 * 2**20
"""Bytes of one line that are read."""
LARGEST_DOCUMENT = 256 * 2**20
"""Bytes of one JSON document that are read."""

SMALL_DOCUMENT = 2**22
"""Bytes of a JSON document that is read as a whole."""

_SAMPLED = 64
"""Records by which a format is recognised."""
_HEAD = 8_000
"""Bytes by which JSON, and JSON Lines, are recognised."""
_FIRST_LINES = 3
"""Lines by which JSON Lines with a damaged first line are recognised."""
_LONGEST_FIRST = 2**18
"""Bytes of each of them: a whole document may be a single line."""

# Members that contain the records. Any other list is part of a record.
_CONTAINERS = frozenset(
    {
        "messages",
        "trajectory",
        "steps",
        "history",
        "events",
        "input",
        "output",
        "items",
        "data",
        "samples",
        "conversation",
        "resourceSpans",
    }
)
# OpenHands names the files of events `12.json` or `event-00012-ID.json`.
_EVENT = re.compile(r"(?:event-)?(\d+)(?:-[\w-]+)?\.json")


@dataclass(frozen=True)
class SourceRecord:
    """A line of JSON Lines, an element of a list, or a whole document."""

    value: Any
    line: int = 0
    """The line in JSON Lines; 0 otherwise."""
    key: str = ""
    """The member of the outer object that contains the list; empty if none does."""


class _Outline:
    """What a large document contains: its first records, and its other members."""

    def __init__(self) -> None:
        self.is_list = False
        """Whether it is a list, or an object with one of the lists of records."""
        self.members: dict[str, Any] = {}
        """As `TranscriptSource.members`."""
        self.sample: list[SourceRecord] = []
        self._counts: Counter[str] = Counter()

    def add(self, part: JsonPart) -> None:
        if not part.is_element:
            self.members[part.key] = part.value
            # The value of a list is None until its elements follow.
            is_list = part.value is None and part.key in _CONTAINERS
            self.is_list = self.is_list or is_list
            return
        self.is_list = self.is_list or not part.key
        self._counts[part.key] += 1
        if self._counts[part.key] <= _SAMPLED:
            self.sample.append(SourceRecord(part.value, key=part.key))


@dataclass(frozen=True)
class _Piece:
    """The bytes of one record, which are JSON or should be."""

    name: str
    """The line or file, as messages name it."""
    line: int
    """The line in JSON Lines; 0 for a file."""
    data: bytes | None
    """None if it is too long."""
    may_be_torn: bool
    """Whether its writer may have been stopped in the middle of it."""


class TranscriptSource:
    """The file of a transcript, a folder with a file for each event, or standard input.

    `part` selects one conversation of a file that has several. When all `records` were
    read, `partial` says which of them are missing: damaged ones, a torn last one, or a
    gap in the numbers of files. It is empty if none is.
    """

    def __init__(self, path: Path | str, *, part: str = "") -> None:
        self.path = Path(path)
        self.part = part
        self._gaps: list[str] = []
        """What the last reading of all records has left out, in sentences."""
        self.name = "<stdin>" if str(path) == STDIN_NAME else str(path)
        """The file as it is named in messages."""
        # Unlike the method of Path, this one never raises.
        self.is_folder = os.path.isdir(path)  # noqa: PTH112
        # Messages write it between the name of the source and the reason. It is that of
        # the last record; only a separator before the first one.
        self._place = "  "

    @property
    def partial(self) -> str:
        """Which records are missing, after all were read; empty if none is."""
        return "; ".join(self._gaps)

    @cached_property
    def piped(self) -> Path | None:
        """A temporary file with the content of a pipe; None for other files.

        A pipe can be read only once, and a transcript is read several times.
        """
        is_stdin = str(self.path) == STDIN_NAME
        if not is_stdin and not self.path.is_fifo():
            return None
        copy = NamedTemporaryFile(prefix="goal-transcript-")  # noqa: SIM115
        # The copy is removed with this object.
        weakref.finalize(self, copy.close)
        if is_stdin:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        else:
            with self.path.open("rb") as pipe:
                shutil.copyfileobj(pipe, copy)
        copy.flush()
        return Path(copy.name)

    @cached_property
    def head(self) -> bytes:
        """The beginning without white space; empty for a folder.

        Raise UsageError if it cannot be read.
        """
        if self.is_folder:
            return b""
        with self._open() as file:
            head = file.read(_HEAD)
        # What PowerShell writes with `>`, for example.
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UsageError(
                f"{self.name}  the transcript is UTF-16, not UTF-8",
                f"iconv -f UTF-16 -t UTF-8 {shlex.quote(self.name)} > NEW converts it",
            )
        return head.removeprefix(codecs.BOM_UTF8).lstrip()

    @property
    def is_json(self) -> bool:
        """Whether the source is JSON, or JSON Lines whose first line may be damaged."""
        return self.head.startswith((b"[", b"{")) or self._begins_with_damage

    @cached_property
    def sample(self) -> tuple[SourceRecord, ...]:
        """The records of a document, or the first ones of JSON Lines and folders.

        They end before the first record that cannot be read.
        """
        if not (self.is_json or self.is_folder):
            return ()
        if self.is_json and self._is_large:
            return tuple(self._outline.sample)
        is_document = self.is_json and self._document is not None
        if is_document:
            return tuple(self._records())
        records: list[SourceRecord] = []
        # The reader reports the error, with the name of the format.
        with suppress(UsageError):
            records.extend(islice(self._records(), _SAMPLED))
        return tuple(records)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The objects in the sample."""
        return [
            record.value for record in self.sample if isinstance(record.value, dict)
        ]

    @property
    def members(self) -> dict[str, Any]:
        """The members of an object that contains records, with None for each list.

        Empty for other documents and for JSON Lines.
        """
        if self.is_json and self._is_large:
            return self._outline.members
        if not self.is_json or not _contains_records(self._document):
            return {}
        return {
            key: None if isinstance(value, list) else value
            for key, value in self._document.items()
        }

    def records(self) -> Iterator[SourceRecord]:
        """Yield the records. Raise UsageError if none can be read.

        Records that are not JSON are left out; `partial` counts them.
        """
        self._gaps.clear()
        for number, record in enumerate(self._records(), 1):
            self._place = f":{record.line}  " if record.line else f": record {number}: "
            yield record

    def add_gap(self, sentence: str) -> None:
        """Note what else is missing in the transcript."""
        self._gaps.append(sentence)

    def add_gaps(self, other: TranscriptSource) -> None:
        """Note what is missing in another file of the same transcript."""
        if other.partial:
            self._gaps.append(f"{other.path.name}: {other.partial}")

    def text_lines(self) -> Iterator[str]:
        """Yield the lines of a file that is not JSON."""
        self._gaps.clear()
        with self._open() as file:
            number = 0
            while line := file.readline(LONGEST_ROW):
                number += 1
                self._place = f":{number}  "
                yield line.decode(errors="replace").removesuffix("\n")

    def error(self, message: str, line: int = 0) -> UsageError:
        """Return an error with the file and, unless it is 0, the line."""
        place = f"{self.name}:{line}" if line else self.name
        return UsageError(f"{place}  {message}", HINT)

    def error_here(self, message: str) -> UsageError:
        """Return an error with the place of the last record that was yielded."""
        return UsageError(f"{self.name}{self._place}{message}", HINT)

    def _records(self) -> Iterator[SourceRecord]:
        if not self.is_folder and self._is_large:
            yield from self._records_of_large_document()
            return
        if self.is_folder or self._document is None:
            yield from self._records_of_pieces()
            return
        document = self._document
        if isinstance(document, list):
            yield from map(SourceRecord, document)
            return
        if not _contains_records(document):
            yield SourceRecord(document)
            return
        for part in grouped_parts(document):
            yield SourceRecord(part.value, key=part.key)

    def _records_of_pieces(self) -> Iterator[SourceRecord]:
        """Yield the values of JSON Lines, or of the files of a folder."""
        pieces = self._files() if self.is_folder else self._lines()
        damaged = 0
        first_damaged = ""
        first_error: UsageError | None = None
        has_records = False
        for piece in pieces:
            try:
                value = _value_of(piece)
            except (ValueError, RecursionError) as error:
                reason = reason_of(error)
                first_error = first_error or self._piece_error(piece, error)
                # A program that is killed leaves its last record unfinished.
                if piece.may_be_torn:
                    self._gaps.append(
                        f"{piece.name}, the last one, is torn ({reason}); "
                        "it was left out"
                    )
                else:
                    damaged += 1
                    first_damaged = first_damaged or f"{piece.name} ({reason})"
                continue
            has_records = True
            yield SourceRecord(value, piece.line)
        if first_error is not None and not has_records:
            raise first_error
        if damaged:
            self._gaps.append(_left_out(damaged, first_damaged))

    def _piece_error(self, piece: _Piece, error: Exception) -> UsageError:
        reason = reason_of(error)
        if not piece.line:
            reason = f"{piece.name}: {reason}"
        return self.error(reason, piece.line)

    @cached_property
    def _is_lines(self) -> bool:
        """Whether a file is JSON Lines.

        Its first line is an object, and something follows it.
        """
        if self._begins_with_damage:
            return True
        if not self.head.startswith(b"{"):
            return False
        with self._open() as file:
            first = file.readline(SMALL_DOCUMENT)
            # Empty lines before the first record are skipped.
            while first and not first.strip():
                first = file.readline(SMALL_DOCUMENT)
            if len(first) < SMALL_DOCUMENT:
                with suppress(ValueError, RecursionError):
                    is_object = isinstance(loads(first), dict)
                    return is_object and bool(file.read(_HEAD).strip())
                return False
            # A long line is not kept: a whole document may be a single line.
            file.seek(0)
            try:
                for _ in json_parts(file):
                    pass
            except TextFollows:
                return True
            except (ValueError, RecursionError):
                return False
        return False

    @cached_property
    def _begins_with_damage(self) -> bool:
        """Whether a file is JSON Lines with a first line that is not JSON.

        In one JSON document, no two lines can be objects: a comma is between them.
        """
        if self.is_folder:
            return False
        lines: list[bytes] = []
        with self._open() as file:
            while len(lines) < _FIRST_LINES:
                line = file.readline(_LONGEST_FIRST)
                if not line.endswith(b"\n"):
                    return False
                if line.strip():
                    lines.append(line)
        first, *others = lines
        return all(map(_is_object, others)) and not _is_object(first)

    @cached_property
    def _is_large(self) -> bool:
        """Whether a file is a document that is not read as a whole."""
        if self._is_lines:
            return False
        with self._open() as file:
            size = file.seek(0, os.SEEK_END)
        return SMALL_DOCUMENT < size <= LARGEST_DOCUMENT and self._outline.is_list

    @cached_property
    def _outline(self) -> _Outline:
        """What a large document contains."""
        outline = _Outline()
        try:
            with self._open() as file:
                for part in json_parts(file):
                    outline.add(part)
        # A reading of the whole document finds the place of the error.
        except (ValueError, RecursionError):
            outline.is_list = False
        return outline

    def _records_of_large_document(self) -> Iterator[SourceRecord]:
        with self._open() as file:
            for part in json_parts(file):
                if part.is_element:
                    yield SourceRecord(part.value, key=part.key)

    @cached_property
    def _document(self) -> Any:
        """The value of a file that is one JSON text; None for JSON Lines.

        Raise UsageError if it is neither.
        """
        if self._is_lines:
            return None
        with self._open() as file:
            data = file.read(LARGEST_DOCUMENT + 1)
        if len(data) > LARGEST_DOCUMENT:
            limit = LARGEST_DOCUMENT // 2**20
            raise self.error(f"the JSON document is larger than {limit} MiB")
        try:
            return loads(data)
        except (ValueError, RecursionError) as error:
            raise self.error(reason_of(error), _line_of(error, data)) from None

    def _lines(self) -> Iterator[_Piece]:
        """Yield the lines that are not empty."""
        with self._open() as file:
            number = 0
            # Not splitlines(), which also splits at characters inside JSON strings.
            while line := file.readline(LONGEST_ROW + 1):
                number += 1
                if len(line) > LONGEST_ROW:
                    yield _Piece(f"line {number}", number, None, may_be_torn=False)
                    while line and not line.endswith(b"\n"):
                        line = file.readline(SMALL_DOCUMENT)
                    continue
                if not line.strip():
                    continue
                is_unfinished = line.startswith(b"{") and not line.endswith(b"\n")
                # A file whose only line is damaged is no transcript.
                may_be_torn = number > 1 and is_unfinished
                yield _Piece(f"line {number}", number, line.rstrip(), may_be_torn)

    def _files(self) -> Iterator[_Piece]:
        """Yield the events of a folder, or of its folder `events`, by their numbers."""
        inner = self.path / "events"
        numbered_paths: list[tuple[int, Path]] = []
        try:
            folder = inner if inner.is_dir() else self.path
            for path in folder.iterdir():
                match = _EVENT.fullmatch(path.name)
                if match:
                    numbered_paths.append((int(match[1]), path))
            numbered_paths.sort()
            total = len(numbered_paths)
            for position, (_, path) in enumerate(numbered_paths, 1):
                # A folder whose only file is damaged is no transcript.
                may_be_torn = position == total and total > 1
                yield _Piece(path.name, 0, path.read_bytes(), may_be_torn)
        except OSError as error:
            reason = error.strerror or error
            raise self.error(f"cannot read {error.filename}: {reason}") from None
        if not numbered_paths:
            return
        first_number, last_number = numbered_paths[0][0], numbered_paths[-1][0]
        missing = last_number - first_number + 1 - total
        if missing:
            self._gaps.append(
                f"{missing} of the events are missing: "
                "the numbers of the files have gaps"
            )

    def _open(self) -> BinaryIO:
        try:
            return (self.piped or self.path).open("rb")
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(
                f"{self.name}: cannot read the transcript: {reason}",
                "Name a file that exists and can be read.",
            ) from None


def _left_out(count: int, first: str) -> str:
    """Return the words about records that are not JSON."""
    if count == 1:
        return f"{first} is damaged; it was left out"
    return f"{count} records are damaged, the first is {first}; they were left out"


class _TooLong(ValueError):
    """A line is not read because of its length."""


def _value_of(piece: _Piece) -> Any:
    """Return the value of a piece. Raise ValueError or RecursionError."""
    if piece.data is None:
        raise _TooLong(f"the line is longer than {LONGEST_ROW // 2**20} MiB")
    return loads(piece.data)


def loads(data: bytes) -> Any:
    """Return the value of one JSON text. Raise ValueError or RecursionError."""
    return json.loads(data.removeprefix(codecs.BOM_UTF8).decode())


def _is_object(line: bytes) -> bool:
    """Return whether a line is a JSON object."""
    if not line.startswith(b"{"):
        return False
    try:
        return isinstance(loads(line), dict)
    except (ValueError, RecursionError):
        return False


def reason_of(error: Exception) -> str:
    """Return why a record cannot be read, in a few words."""
    match error:
        case RecursionError():
            return "the JSON is nested too deeply"
        case UnicodeDecodeError():
            return "the transcript is not UTF-8"
        case json.JSONDecodeError():
            return f"not valid JSON: {error.msg} (column {error.colno})"
        case OSError():
            return str(error.strerror or error)
        case _TooLong():
            return str(error)
        case _:
            return f"not valid JSON: {error}"


def _line_of(error: Exception, data: bytes) -> int:
    """Return the line of an error in a document; 0 if the error has no place."""
    if isinstance(error, json.JSONDecodeError):
        return error.lineno
    if isinstance(error, UnicodeDecodeError):
        return data.count(b"\n", 0, error.start) + 1
    return 0


def _contains_records(document: Any) -> bool:
    """Return whether a JSON value is an object whose members contain the records."""
    if not isinstance(document, dict):
        return False
    return any(isinstance(document.get(key), list) for key in _CONTAINERS)
