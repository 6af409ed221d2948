"""The positions of keys and values in a TOML text.

The standard library's parser gives no positions, so this reads the same text and notes where keys and values begin. On
text that it does not understand it stops; messages about the rest then have no column.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass

Key = tuple[str | int, ...]
"""The path to a value: `("validators", 0, "timeout")`."""

Place = tuple[int, int]
"""Line and column, from 1; (0, 0) when unknown."""

NOWHERE: Place = (0, 0)

MOST_PARTS = 100
"""Parts that a dotted key may have; the standard parser takes quadratic time for more."""

_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r"""
      \"{3} (?: \\. | [^\\] )*? \"{3} \"{0,2}    # several lines; up to two quotes may stand before the closing ones
    | '{3} .*? '{3} '{0,2}
    | " (?: \\. | [^"\\] )* "
    | ' [^']* '
    """,
    re.DOTALL | re.VERBOSE,
)
_SCALAR = re.compile(r"[^,\]}#\r\n]+")


@dataclass(frozen=True)
class Positions:
    """Offsets of keys and values, and the lines to express them in."""

    keys: dict[Key, int]
    values: dict[Key, int]
    line_starts: tuple[int, ...]

    def key(self, path: Key) -> Place:
        """Return the place of the key of `path`, or of the nearest table around it."""
        return self._nearest(self.keys, path)

    def value(self, path: Key) -> Place:
        """Return where the value of `path` begins, or the nearest table around it."""
        return self._nearest(self.values, path)

    def _nearest(self, offsets: dict[Key, int], path: Key) -> Place:
        for length in range(len(path), 0, -1):
            if path[:length] in offsets:
                return place_of(self.line_starts, offsets[path[:length]])
        return NOWHERE


def line_starts_of(text: str) -> tuple[int, ...]:
    """Return the offsets at which lines begin; only the newline character ends a line, as in TOML."""
    return (0, *(match.end() for match in re.finditer("\n", text)))


def place_of(line_starts: tuple[int, ...], offset: int) -> Place:
    """Return line and column (in characters, from 1) of an offset."""
    line = bisect_right(line_starts, offset)
    return line, offset - line_starts[line - 1] + 1


def locate(text: str) -> Positions:
    """Return the positions of all keys and values of a TOML text; of an invalid one, those before the error.

    The time is proportional to the length of the text. Raise LongKeyError.
    """
    scanner = _Scanner(text)
    try:
        scanner.document()
    except (_LostError, RecursionError, tomllib.TOMLDecodeError):
        pass
    return Positions(keys=scanner.keys, values=scanner.values, line_starts=line_starts_of(text))


class LongKeyError(Exception):
    """A dotted key has more than MOST_PARTS parts; `place` is where it begins."""

    def __init__(self, place: Place) -> None:
        super().__init__(f"more than {MOST_PARTS} parts")
        self.place = place


class _LostError(Exception):
    """The text is not what the scanner expects."""


class _Scanner:
    """One scan of a text; `keys` and `values` grow meanwhile."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.keys: dict[Key, int] = {}
        self.values: dict[Key, int] = {}
        self._arrays: dict[Key, int] = {}

    def document(self) -> None:
        table: Key = ()
        while True:
            self._take(_BLANK)
            if self.at >= len(self.text):
                return
            if self._sees("["):
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Key:
        is_array = self._sees("[[")
        self.at += 2 if is_array else 1
        parts = self._key_parts()
        self._expect("]]" if is_array else "]")
        path: Key = ()
        for position, (part, offset) in enumerate(parts):
            path = (*path, part)
            self._note(path, offset, offset)
            if is_array and position == len(parts) - 1:
                self._arrays[path] = self._arrays.get(path, 0) + 1
            if path in self._arrays:
                path = (*path, self._arrays[path] - 1)
                self._note(path, offset, offset)
        return path

    def _pair(self, table: Key) -> None:
        parts = self._key_parts()
        self._expect("=")
        self._take(_SPACE)
        path = table
        for part, offset in parts:
            path = (*path, part)
            self._note(path, offset, self.at)
        self._value(path)

    def _key_parts(self) -> list[tuple[str, int]]:
        parts: list[tuple[str, int]] = []
        while True:
            self._take(_SPACE)
            offset = self.at
            quoted = self._sees('"') or self._sees("'")
            parts.append((_plain(self._take(_STRING if quoted else _BARE)), offset))
            self._take(_SPACE)
            if not self._sees("."):
                return parts
            if len(parts) == MOST_PARTS:
                raise LongKeyError(place_of(line_starts_of(self.text), parts[0][1]))
            self.at += 1

    def _value(self, path: Key) -> None:
        if self._sees("["):
            self._array(path)
        elif self._sees("{"):
            self._inline_table(path)
        elif self._sees('"') or self._sees("'"):
            self._take(_STRING)
        else:
            self._take(_SCALAR)

    def _array(self, path: Key) -> None:
        self.at += 1
        index = 0
        while True:
            self._take(_BLANK)
            if self._sees("]"):
                break
            item = (*path, index)
            self._note(item, self.at, self.at)
            self._value(item)
            index += 1
            self._take(_BLANK)
            if not self._sees(","):
                break
            self.at += 1
        self._expect("]")

    def _inline_table(self, path: Key) -> None:
        self.at += 1
        while True:
            self._take(_BLANK)
            if self._sees("}"):
                break
            self._pair(path)
            self._take(_BLANK)
            if not self._sees(","):
                break
            self.at += 1
        self._expect("}")

    def _note(self, path: Key, key: int, value: int) -> None:
        self.keys.setdefault(path, key)
        self.values.setdefault(path, value)

    def _sees(self, expected: str) -> bool:
        return self.text.startswith(expected, self.at)

    def _expect(self, expected: str) -> None:
        self._take(_SPACE)
        if not self._sees(expected):
            raise _LostError
        self.at += len(expected)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _LostError
        self.at = match.end()
        return match.group()


def _plain(raw: str) -> str:
    """Return a key without quotes, escapes resolved."""
    if raw.startswith('"') and "\\" in raw:
        return str(tomllib.loads(f"key = {raw}")["key"])
    return raw[1:-1] if raw[:1] in {'"', "'"} else raw
