"""The records of a JSON or JSON Lines file one after another, in bounded memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

LONGEST = 64 * 2**20
"""Bytes of a line, or characters of an element of a JSON document, that are read."""
_CHUNK = 2**20
_GOES_ON = 3
"""Characters behind a number that may belong to it, as in 1e+5, although what is in front of them is a number, too."""
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class StreamError(Exception):
    """A part of a file cannot be read. `torn`: it is the last line of the file, and has no end."""

    def __init__(self, message: str, line: int = 0, *, torn: bool = False) -> None:
        super().__init__(message)
        self.message, self.line, self.torn = message, line, torn


@dataclass(frozen=True)
class Record:
    """A line of JSON Lines, an element of a list, or a member of the outer object."""

    value: Any
    line: int = 0
    key: str = ""
    """The member of the outer object; empty if the records are the lines or the elements of the file."""
    element: bool = True
    """Whether it is an element of a list; False: the whole member."""


def lines(file: BinaryIO, longest: int = LONGEST) -> Iterator[Record]:
    """Yield the values of JSON Lines. Empty lines are skipped. Raise StreamError with the line."""
    number = 0
    # Not splitlines(), which also splits at characters that may stand inside a JSON string.
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise StreamError(f"the line is longer than {longest // 2**20} MiB", number)
        if line.strip():
            try:
                value = loads(line.rstrip())
            except (ValueError, RecursionError) as error:
                torn = number > 1 and line.startswith(b"{") and not line.endswith(b"\n")
                torn = torn and not isinstance(error, RecursionError)
                raise StreamError(reason_of(error), number, torn=torn) from None
            yield Record(value, number)


def loads(data: bytes) -> Any:
    """Return the value of one JSON text. Raise ValueError or RecursionError."""
    return json.loads(data.removeprefix(codecs.BOM_UTF8).decode())


def reason_of(error: Exception) -> str:
    """Return why JSON cannot be read, in a few words."""
    match error:
        case RecursionError():
            return "the JSON is nested too deeply"
        case UnicodeDecodeError():
            return "the transcript is not UTF-8"
        case json.JSONDecodeError():
            return f"not valid JSON: {error.msg} (column {error.colno})"
        case _:
            return f"not valid JSON: {error}"


def document(file: BinaryIO, longest: int = LONGEST) -> Generator[Record, None, None]:
    """Yield the elements of a JSON array, or the members of an object; of members that are lists, their elements.

    Raise StreamError with the line.
    """
    scanner = _Scanner(file, longest)
    if scanner.peek() == "[":
        yield from scanner.elements("")
    else:
        scanner.expect("{")
        while scanner.peek() != "}":
            key = str(scanner.value())
            scanner.expect(":")
            if scanner.peek() == "[":
                yield from scanner.elements(key)
            else:
                line = scanner.line
                yield Record(scanner.value(), line, key, element=False)
            if scanner.peek() != "}":
                scanner.expect(",")
        scanner.expect("}")
    if scanner.peek():
        raise scanner.error("not valid JSON: Extra data")


class _Scanner:
    """Decodes one value after another of a text of which a part is held."""

    def __init__(self, file: BinaryIO, longest: int) -> None:
        self.line = 1
        self._file, self._longest = file, longest
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._text, self._at = "", 0
        self._column = 1  # of the character at `_at`

    def peek(self) -> str:
        """Return the next character that is not space; empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._move(found.end() if found else self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill():
                return ""

    def expect(self, sign: str) -> None:
        """Go on behind a sign. Raise StreamError if another one is there."""
        if self.peek() != sign:
            raise self.error(f"not valid JSON: Expecting '{sign}' delimiter")
        self._move(self._at + 1)

    def elements(self, key: str) -> Iterator[Record]:
        """Yield the elements of the array that begins here; of an empty member, the empty list."""
        self.expect("[")
        if self.peek() == "]":
            self.expect("]")
            if key:
                yield Record([], self.line, key, element=False)
            return
        while True:
            self.peek()
            line = self.line
            yield Record(self.value(), line, key)
            if self.peek() == "]":
                self.expect("]")
                return
            self.expect(",")

    def value(self) -> Any:
        """Return the value that begins here."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise self.error(reason_of(error)) from None
            except ValueError as error:
                if self._fill():
                    continue
                if isinstance(error, json.JSONDecodeError):
                    self._move(error.pos)
                raise self.error(f"not valid JSON: {getattr(error, 'msg', error)}") from None
            if len(self._text) - end < _GOES_ON and self._fill():
                continue
            if end - self._at > self._longest:
                raise self._too_long()
            self._move(end)
            return value

    def error(self, message: str) -> StreamError:
        """Return an error at the next character."""
        return StreamError(
            f"{message} (column {self._column})" if message.startswith("not valid") else message, self.line
        )

    def _too_long(self) -> StreamError:
        return self.error(f"one value is longer than {self._longest // 2**20} MiB")

    def _move(self, to: int) -> None:
        """Go to a place of the text that is held."""
        newlines = self._text.count("\n", self._at, to)
        self.line += newlines
        self._column = to - self._text.rindex("\n", self._at, to) if newlines else self._column + to - self._at
        self._at = to

    def _fill(self) -> bool:
        """Read on; return whether there was more. What is read twice is doubled, so that all takes linear time."""
        held = len(self._text) - self._at
        if held > self._longest:
            raise self._too_long()
        while data := self._file.read(max(_CHUNK, held)):
            if more := self._decoded(data):
                self._text, self._at = self._text[self._at :] + more, 0
                return True
        self._decoded(b"")
        return False

    def _decoded(self, data: bytes) -> str:
        try:
            return self._decode(data, not data)
        except UnicodeDecodeError as error:
            self._text += bytes(error.object[: error.start]).decode()
            self._move(len(self._text))
            raise self.error("the transcript is not UTF-8") from None
