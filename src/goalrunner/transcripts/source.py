"""The file or folder of a transcript: its records, a sample of them by which its format is recognised, and errors."""

from __future__ import annotations

import codecs
import os
import re
import stat
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Literal

from goalrunner.core.errors import UsageError
from goalrunner.transcripts import json_stream
from goalrunner.transcripts.json_stream import Record, StreamError

Deliverable = Literal["workspace", "response"]

HINT = "goal status --list-formats lists the formats; --format NAME forces one."

STDIN = "-"
_PROBE = 8_000
"""Bytes that distinguish a text from a binary file."""
_SAMPLED, _SAMPLED_SIZE = 64, 2**23
_CONTAINERS = frozenset(
    {"messages", "trajectory", "steps", "history", "events", "input", "output", "items", "data", "samples"}
)
_KINDS = frozenset({"type", "role", "kind", "jsonrpc", "sessionUpdate", "payload", "action", "observation"})
"""Members that distinguish one record from a document that contains records."""
_EVENT = re.compile(r"(?:event-)?(\d+)(?:-[\w-]+)?\.json")


class Source:
    """The file of a transcript, a folder with one file for each event, or standard input.

    `part` selects one conversation of a file that has several. After `records` is exhausted, `partial` says what is
    missing at the end; empty if nothing is.
    """

    def __init__(self, path: Path | str, *, part: str = "", longest: int = json_stream.LONGEST) -> None:
        self.path = Path(path)
        self.part = part
        self.partial = ""
        self.longest = longest
        self.name = "<stdin>" if str(path) == STDIN else str(path)
        """The file as it is named in messages."""
        self.is_folder = os.path.isdir(path)  # noqa: PTH112 - never raises
        self._line = 0
        self._copy: BinaryIO | None = None
        self._file: BinaryIO | None = None

    def close(self) -> None:
        """Remove the copy of a pipe."""
        if self._copy is not None:
            self._copy.close()

    @cached_property
    def is_pipe(self) -> bool:
        """Whether it can be read only once, so that a copy is made."""
        try:
            return str(self.path) == STDIN or stat.S_ISFIFO(self.path.stat().st_mode)
        except OSError:
            return False

    @cached_property
    def head(self) -> bytes:
        """The first bytes; empty for a folder. Raises UsageError if it cannot be read."""
        if self.is_folder:
            return b""
        with self._opened() as file:
            return file.read(_PROBE)

    @cached_property
    def form(self) -> Literal["lines", "one", "array", "object", "folder", ""]:
        """What the records are: lines, one object, elements of an array, members of an object, files. Empty: no JSON."""
        if self.is_folder:
            return "folder"
        first = self.head.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
        if first == b"[" and b"\0" not in self.head:
            return "array"
        if first != b"{" or b"\0" in self.head:
            return ""
        with self._opened() as file:
            last, following = _first_line(file)
        if last == b"}" and following and following not in b",]}":
            return "lines"
        return "object" if self._is_document() else "one"

    @cached_property
    def sample(self) -> tuple[Record, ...]:
        """The first records; fewer if one of them cannot be read."""
        found: list[Record] = []
        try:
            with closing(self._records()) as records:
                for record in records if self.form else ():
                    found.append(record)
                    if len(found) >= _SAMPLED or (self._file and self._file.tell() > _SAMPLED_SIZE):
                        break
        except StreamError:
            pass  # the reader reports it
        return tuple(found)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The objects among the first records that are lines or elements."""
        return [record.value for record in self.sample if record.element and isinstance(record.value, dict)]

    @property
    def members(self) -> dict[str, Any]:
        """The first members of the outer object; those that are lists are None."""
        return {record.key: None if record.element else record.value for record in self.sample if record.key}

    def records(self) -> Iterator[Record]:
        """Yield the records. Raise UsageError with the line; only a torn last line is left out, and noted as partial."""
        try:
            for record in self._records():
                self._line = record.line
                yield record
        except StreamError as error:
            if not error.torn:
                raise self.error(error.message, error.line) from None
            self.partial = f"line {error.line}, the last one, is torn ({error.message}); it was left out"

    def error(self, message: str, line: int = 0) -> UsageError:
        """Return an error with the file and, unless it is 0, the line."""
        return UsageError(f"{self.name}:{line}  {message}" if line else f"{self.name}  {message}", HINT)

    def here(self, message: str) -> UsageError:
        """Return an error with the file and the line of the last record."""
        return self.error(message, self._line)

    def _records(self) -> Generator[Record, None, None]:
        if self.form == "folder":
            yield from self._files()
            return
        with self._opened() as file:
            self._file = file
            if self.form == "one":
                try:
                    yield Record(json_stream.loads(file.read()), 1)
                except (ValueError, RecursionError) as error:
                    raise StreamError(json_stream.reason_of(error), 1) from None
            else:
                read = json_stream.lines if self.form == "lines" else json_stream.document
                yield from read(file, self.longest)

    def _files(self) -> Iterator[Record]:
        """Yield the events of a folder, or of its folder `events`, in the order of their numbers."""
        inner = self.path / "events"
        try:
            names = list((inner if inner.is_dir() else self.path).iterdir())
        except OSError as error:
            raise StreamError(f"cannot read the folder: {error.strerror or error}") from None
        found = sorted((int(match[1]), path) for path in names if (match := _EVENT.fullmatch(path.name)))
        for place, (_, path) in enumerate(found):
            try:
                data = path.read_bytes()
                if len(data) > self.longest:
                    raise StreamError(f"{path.name} is longer than {self.longest // 2**20} MiB")
                yield Record(json_stream.loads(data))
            except OSError as error:
                raise StreamError(f"{path.name}: {error.strerror or error}") from None
            except (ValueError, RecursionError) as error:
                message = f"{path.name}: {json_stream.reason_of(error)}"
                if not 0 < place == len(found) - 1 or isinstance(error, RecursionError):
                    raise StreamError(message) from None
                self.partial = f"the last event is torn ({message}); it was left out"
                return
        missing = found[-1][0] - found[0][0] + 1 - len(found) if found else 0
        if missing:
            self.partial = f"{missing} of the events are missing: the numbers of the files have gaps"

    def _is_document(self) -> bool:
        """Return whether an object contains the records, and is not one; of a damaged or large one this is assumed."""
        try:
            with self._opened() as file, closing(json_stream.document(file, self.longest)) as records:
                for record in records:
                    if record.key in _KINDS and not record.element and isinstance(record.value, str | dict):
                        return False
                    if record.key in _CONTAINERS and (record.element or record.value == []):
                        return True
                    if file.tell() > self.longest:
                        return True
        except StreamError:
            return True
        return False

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        try:
            if self.is_pipe and self._copy is None:
                self._copy = _copied(self.path)
            if self._copy is not None:
                self._copy.seek(0)
            with nullcontext(self._copy) if self._copy is not None else self.path.open("rb") as file:
                yield file
        except OSError as error:
            raise UsageError(
                f"{self.name}: cannot read the transcript: {error.strerror or error}",
                "Name a file that exists and can be read.",
            ) from None


def _first_line(file: BinaryIO) -> tuple[bytes, bytes]:
    """Return the last character of the first line that is not empty, and the first one that follows it."""
    last, ended = b"", False
    while piece := file.readline(2**16):
        if ended and piece.strip():
            return last, piece.lstrip()[:1]
        last = piece.rstrip()[-1:] or last
        ended = ended or (last != b"" and piece.endswith(b"\n"))
    return last, b""


def _copied(path: Path) -> BinaryIO:
    """Return a file with what a pipe gives: a transcript is read more than once."""
    copy: BinaryIO = TemporaryFile(prefix="goal-stdin-")  # noqa: SIM115 - Source.close
    with nullcontext(sys.stdin.buffer) if str(path) == STDIN else path.open("rb") as stream:
        while chunk := stream.read(2**20):
            copy.write(chunk)
    return copy
