"""The elements of the lists in a large JSON document, one at a time."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

__all__ = ["JsonPart", "TextFollows", "grouped_parts", "json_parts"]

PIECE = 2**18
"""Bytes that are read at a time."""

# Lists whose elements are objects that only group the elements of an inner list. The
# spans of a program are usually in one such object, which is the whole document.
_GROUPS = frozenset({"resourceSpans", "scopeSpans"})

_SPACES = " \t\r\n"
_LONGEST_EXPONENT = 4
"""Characters that must follow a number before it is certain: 1 may go on as 1.5e+30."""


class TextFollows(ValueError):
    """A valid document is followed by something, as in JSON Lines."""


@dataclass(frozen=True)
class JsonPart:
    """An element of a list, or a member that is not a list."""

    value: Any
    key: str = ""
    """The member of the outer object; empty in an outer list."""
    is_element: bool = True


def json_parts(file: BinaryIO) -> Iterator[JsonPart]:
    """Yield the parts of a document that is a list or an object.

    Before the elements of a member, a part has its key and the value None.
    Raise ValueError or RecursionError if it is not valid JSON.
    """
    text = _Text(file)
    opening = text.next_character()
    if opening == "[":
        for value in _elements(text):
            yield JsonPart(value)
    elif opening == "{":
        yield from _members(text)
    else:
        raise ValueError("neither a list nor an object")
    if text.next_character():
        raise TextFollows("something follows the document")


def _members(text: _Text) -> Iterator[JsonPart]:
    text.skip("{")
    if text.next_character() == "}":
        text.skip("}")
        return
    while True:
        if text.next_character() != '"':
            raise ValueError("a member without a name")
        key = text.value()
        text.next_character()
        text.skip(":")
        if text.next_character() == "[":
            yield JsonPart(None, key, is_element=False)
            yield from _parts_of_list(text, key)
        else:
            yield JsonPart(text.value(), key, is_element=False)
        if text.next_character() == "}":
            text.skip("}")
            return
        text.skip(",")


def _parts_of_list(text: _Text, key: str) -> Iterator[JsonPart]:
    """Yield the elements of a list, or those of the lists that they group."""
    for _ in _starts(text):
        if key in _GROUPS and text.next_character() == "{":
            yield from filter(_is_grouped, _members(text))
        else:
            yield JsonPart(text.value(), key)


def _elements(text: _Text) -> Iterator[Any]:
    for _ in _starts(text):
        yield text.value()


def _starts(text: _Text) -> Iterator[None]:
    """Stop at the start of each element of a list; its caller reads the element."""
    text.skip("[")
    if text.next_character() == "]":
        text.skip("]")
        return
    while True:
        text.next_character()
        yield
        if text.next_character() == "]":
            text.skip("]")
            return
        text.skip(",")


def _is_grouped(part: JsonPart) -> bool:
    """Return whether a part of a group is an element; its other members say nothing."""
    return part.is_element


def grouped_parts(document: dict[str, Any]) -> Iterator[JsonPart]:
    """Yield the elements of the lists of a decoded document, as `json_parts` does."""
    for key, value in document.items():
        if not isinstance(value, list):
            continue
        for element in value:
            if key in _GROUPS and isinstance(element, dict):
                yield from grouped_parts(element)
            else:
                yield JsonPart(element, key)


class _Text:
    """The text of a file from a place on, which moves forward."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder()
        self._buffer = ""
        self._place = 0

    def next_character(self) -> str:
        """Skip spaces and return the next character; empty at the end."""
        while True:
            while self._place < len(self._buffer):
                character = self._buffer[self._place]
                if character not in _SPACES:
                    return character
                self._place += 1
            if not self._read_on():
                return ""

    def skip(self, character: str) -> None:
        """Skip the next character. Raise ValueError if it is another one."""
        if self._buffer[self._place : self._place + 1] != character:
            raise ValueError(f"{character} is missing")
        self._place += 1

    def value(self) -> Any:
        """Return the value that begins here."""
        while True:
            try:
                value, end = self._json.raw_decode(self._buffer, self._place)
            except ValueError:
                # Its end may not be read yet.
                if self._read_on():
                    continue
                raise
            if end + _LONGEST_EXPONENT > len(self._buffer) and self._read_on():
                continue
            self._place = end
            return value

    def _read_on(self) -> bool:
        """Read more of the file; return False at its end."""
        waiting = len(self._buffer) - self._place
        # A long value is read in a few steps, because each step begins it again.
        data = self._file.read(max(PIECE, waiting))
        text = self._utf8.decode(data, final=not data)
        if not data:
            return False
        self._buffer = self._buffer[self._place :] + text
        self._place = 0
        return True
