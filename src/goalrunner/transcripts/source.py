"""The JSON records of a transcript in a file, folder or pipe, a sample of them, and storage of its texts."""

from __future__ import annotations

import codecs
import json
import os
import re
import shutil
import sys
import weakref
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile, gettempdir
from typing import Any, BinaryIO

from goalrunner.core.errors import UsageError

HINT = "goal status --list-formats lists the formats; --format NAME forces one."
STDIN_NAME = "-"
LONGEST_ROW = 64 * 2**20
"""Bytes of one line that are read."""
LARGEST_DOCUMENT = 256 * 2**20
"""Bytes of one JSON document that are read."""

_SAMPLED = 64
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
    }
)
_EVENT = re.compile(r"(?:event-)?(\d+)(?:-[\w-]+)?\.json")


@dataclass(frozen=True)
class SourceRecord:
    """A line of JSON Lines, an element of a list, or a whole document."""

    value: Any
    line: int = 0
    """The line in JSON Lines; 0 otherwise."""
    key: str = ""
    """The member of the outer object that contains the list; empty if there is none."""


class TranscriptSource:
    """The file of a transcript, a folder with one file for each event, or standard input.

    `part` selects one conversation of a file that has several. After `records` is exhausted, `partial` says what is
    missing at the end; empty if nothing is.
    """

    def __init__(self, path: Path | str, *, part: str = "") -> None:
        self.path = Path(path)
        self.part = part
        self.partial = ""
        self.name = "<stdin>" if str(path) == STDIN_NAME else str(path)
        """The file as it is named in messages."""
        self.is_folder = os.path.isdir(path)  # noqa: PTH112 - never raises
        self._place = "  "

    @cached_property
    def piped(self) -> Path | None:
        """A temporary file with the content of a pipe, which can be read only once; None for files."""
        if str(self.path) != STDIN_NAME and not self.path.is_fifo():
            return None
        copy = NamedTemporaryFile(prefix="goal-transcript-")  # noqa: SIM115 - removed with this object
        weakref.finalize(self, copy.close)
        with (
            nullcontext(sys.stdin.buffer)
            if str(self.path) == STDIN_NAME
            else self.path.open("rb") as stream
        ):
            shutil.copyfileobj(stream, copy)
        copy.flush()
        return Path(copy.name)

    @cached_property
    def head(self) -> bytes:
        """The beginning without white space; empty for a folder. Raise UsageError if it cannot be read."""
        if self.is_folder:
            return b""
        with self._open() as file:
            return file.read(8_000).removeprefix(codecs.BOM_UTF8).lstrip()

    @property
    def is_json(self) -> bool:
        """Whether the source is a file that begins with `[` or `{`."""
        return self.head.startswith((b"[", b"{"))

    @cached_property
    def sample(self) -> tuple[SourceRecord, ...]:
        """The records of a document, or the first ones of JSON Lines and folders, up to one that cannot be read."""
        if self.is_json and self._document is not None:
            return tuple(self._records())
        found: list[SourceRecord] = []
        with suppress(UsageError):  # the reader reports it
            found.extend(
                islice(self._records(), _SAMPLED)
                if self.is_json or self.is_folder
                else ()
            )
        return tuple(found)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The objects in the sample."""
        return [
            record.value for record in self.sample if isinstance(record.value, dict)
        ]

    @property
    def members(self) -> dict[str, Any]:
        """The members of an object that contains records; those that are lists are None."""
        if not self.is_json or not _contains_records(self._document):
            return {}
        return {
            key: None if isinstance(value, list) else value
            for key, value in self._document.items()
        }

    def records(self) -> Iterator[SourceRecord]:
        """Yield the records. Raise UsageError with the place; only a torn last line is left out, and noted as partial."""
        for number, record in enumerate(self._records(), 1):
            self._place = f":{record.line}  " if record.line else f": record {number}: "
            yield record

    def error(self, message: str, line: int = 0) -> UsageError:
        """Return an error with the file and, unless it is 0, the line."""
        return UsageError(
            f"{self.name}:{line}  {message}" if line else f"{self.name}  {message}",
            HINT,
        )

    def here(self, message: str) -> UsageError:
        """Return an error with the place of the last record."""
        return UsageError(f"{self.name}{self._place}{message}", HINT)

    def _records(self) -> Iterator[SourceRecord]:
        if self.is_folder or self._document is None:
            yield from self._pieces()
        elif isinstance(self._document, list):
            yield from map(SourceRecord, self._document)
        elif not _contains_records(self._document):
            yield SourceRecord(self._document)
        else:
            lists = (
                (key, value)
                for key, value in self._document.items()
                if isinstance(value, list)
            )
            yield from (
                SourceRecord(element, key=key)
                for key, value in lists
                for element in value
            )

    def _pieces(self) -> Iterator[SourceRecord]:
        """Yield the values of JSON Lines, or of the files of a folder. A torn last one is left out."""
        for name, line, data, may_be_torn in (
            self._files() if self.is_folder else self._lines()
        ):
            try:
                value = loads(data)
            except (ValueError, RecursionError) as error:
                why = reason_of(error)
                if not may_be_torn or isinstance(error, RecursionError):
                    raise self.error(why if line else f"{name}: {why}", line) from None
                self.partial = f"{name}, the last one, is torn ({why}); it was left out"
                return
            yield SourceRecord(value, line)

    @cached_property
    def _document(self) -> Any:
        """The value of a file that is one JSON text; None for JSON Lines. Raise UsageError if it is neither."""
        with self._open() as file:
            while (first := file.readline(LONGEST_ROW)) and not first.strip():
                pass
            with suppress(ValueError, RecursionError):
                if isinstance(loads(first), dict) and file.read(8_000).strip():
                    return None
            file.seek(0)
            data = file.read(LARGEST_DOCUMENT + 1)
        if len(data) > LARGEST_DOCUMENT:
            raise self.error(
                f"the JSON document is larger than {LARGEST_DOCUMENT // 2**20} MiB"
            )
        try:
            return loads(data)
        except (ValueError, RecursionError) as error:
            line = (
                data.count(b"\n", 0, error.start) + 1
                if isinstance(error, UnicodeDecodeError)
                else 0
            )
            raise self.error(reason_of(error), getattr(error, "lineno", line)) from None

    def _lines(self) -> Iterator[tuple[str, int, bytes, bool]]:
        """Yield the name, the number and the bytes of each line that is not empty, and whether it may be torn."""
        with self._open() as file:
            number = 0
            # Not splitlines(), which also splits at characters that may stand inside a JSON string.
            while line := file.readline(LONGEST_ROW + 1):
                number += 1
                if len(line) > LONGEST_ROW:
                    raise self.error(
                        f"the line is longer than {LONGEST_ROW // 2**20} MiB", number
                    )
                if line.strip():
                    may_be_torn = (
                        number > 1
                        and line.startswith(b"{")
                        and not line.endswith(b"\n")
                    )
                    yield f"line {number}", number, line.rstrip(), may_be_torn

    def _files(self) -> Iterator[tuple[str, int, bytes, bool]]:
        """Yield the same for the events of a folder, or of its folder `events`, in the order of their numbers."""
        inner = self.path / "events"
        try:
            names = list((inner if inner.is_dir() else self.path).iterdir())
            found = sorted(
                (int(match[1]), path)
                for path in names
                if (match := _EVENT.fullmatch(path.name))
            )
            for place, (_, path) in enumerate(found, 1):
                yield path.name, 0, path.read_bytes(), 1 < place == len(found)
        except OSError as error:
            raise self.error(
                f"cannot read {error.filename}: {error.strerror or error}"
            ) from None
        if missing := found[-1][0] - found[0][0] + 1 - len(found) if found else 0:
            self.partial = f"{missing} of the events are missing: the numbers of the files have gaps"

    def _open(self) -> BinaryIO:
        try:
            return (self.piped or self.path).open("rb")
        except OSError as error:
            message = (
                f"{self.name}: cannot read the transcript: {error.strerror or error}"
            )
            raise UsageError(
                message, "Name a file that exists and can be read."
            ) from None


class TextStore:
    """TextStore in a temporary file, so that a long transcript needs little memory."""

    def __init__(self) -> None:
        self._file = NamedTemporaryFile(prefix="goal-transcript-")  # noqa: SIM115 - removed with this object
        weakref.finalize(self, self._file.close)
        self._end = 0

    def add(self, text: str) -> tuple[int, int]:
        """Store a text; return its offset and its length in bytes. Raise UsageError if the disk is full."""
        data = text.encode(errors="replace")
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise UsageError(
                f"the texts of the transcript cannot be stored in {gettempdir()}: {error.strerror or error}",
                "free some space there, or set TMPDIR to another folder",
            ) from None
        self._end += len(data)
        return self._end - len(data), len(data)

    def read(self, place: tuple[int, int]) -> str:
        """Return the text at a place."""
        begin, length = place
        return os.pread(self._file.fileno(), length, begin).decode()


def loads(data: bytes) -> Any:
    """Return the value of one JSON text. Raise ValueError or RecursionError."""
    return json.loads(data.removeprefix(codecs.BOM_UTF8).decode())


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
        case _:
            return f"not valid JSON: {error}"


def _contains_records(document: Any) -> bool:
    """Return whether a JSON value is an object whose members contain the records."""
    return isinstance(document, dict) and any(
        isinstance(document.get(key), list) for key in _CONTAINERS
    )
