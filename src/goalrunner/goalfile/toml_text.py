"""Reading TOML files: their tables, the positions of keys and values, and errors with line and column.

The standard library's parser gives no positions, so a scanner reads the same text and notes where keys and values begin.
On text that it does not understand it stops; messages about the rest then have no column.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from goalrunner.core.errors import GoalFileError, Problem
from goalrunner.core.goal import SHORT_TABLES

Key = tuple[str | int, ...]
"""The path to a value: `("validators", 0, "timeout")`."""

Place = tuple[int, int]
"""Line and column, from 1; (0, 0) when unknown."""

NOWHERE: Place = (0, 0)
LARGEST = 1_000_000
"""Bytes that a goal file may have."""


@dataclass(frozen=True)
class Positions:
    """The offsets of keys and values in a text."""

    keys: dict[Key, int]
    values: dict[Key, int]
    text: str

    def key(self, path: Key) -> Place:
        """Return the place of the key of `path`, or of the nearest table around it."""
        return self._nearest(self.keys, path)

    def value(self, path: Key) -> Place:
        """Return where the value of `path` begins, or the nearest table around it."""
        return self._nearest(self.values, path)

    def below(self, table: Key) -> Positions:
        """Return the positions in a table, relative to it."""
        keys, values = (
            {key[len(table) :]: at for key, at in offsets.items() if key[: len(table)] == table}
            for offsets in (self.keys, self.values)
        )
        return Positions(keys, values, self.text)

    def _nearest(self, offsets: dict[Key, int], path: Key) -> Place:
        found = (offsets[path[:length]] for length in range(len(path), 0, -1) if path[:length] in offsets)
        offset = next(found, None)
        return NOWHERE if offset is None else place_of(self.text, offset)


def place_of(text: str, offset: int) -> Place:
    """Return line and column (in characters, from 1) of an offset; only the newline character ends a line, as in TOML."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def locate(text: str) -> Positions:
    """Return the positions of all keys and values of a TOML text; of an invalid one, those before the error.

    The time is proportional to the length of the text.
    """
    scanner = _Scanner(text)
    with suppress(_LostError, RecursionError, tomllib.TOMLDecodeError):
        table: Key = ()
        while scanner.take(_BLANK) or scanner.at < len(text):
            if text.startswith("[", scanner.at):
                table = scanner.header()
            elif scanner.at < len(text):
                scanner.pair(table)
    return Positions(scanner.keys, scanner.values, text)


_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_STRING = r"""
      \"{3} (?: \\. | [^\\] )*? \"{3} \"{0,2}    # several lines; up to two quotes may stand before the closing ones
    | '{3} .*? '{3} '{0,2}
    | " (?: \\. | [^"\\] )* "
    | ' [^']* '
    """
_PART = re.compile(rf"{_STRING} | [A-Za-z0-9_-]+", re.DOTALL | re.VERBOSE)
_VALUE = re.compile(rf"[\[{{] | {_STRING} | [^,\]}}\#\r\n]+", re.DOTALL | re.VERBOSE)
_OPENING = re.compile(r"\[\[?")
_CLOSING = re.compile(r"[ \t]*\]\]?")
_ENDS = {"[": "]", "{": "}"}


class _LostError(Exception):
    """The text is not what the scanner expects."""


@dataclass
class _Scanner:
    """One scan of a text; `keys` and `values` grow meanwhile."""

    text: str
    at: int = 0
    keys: dict[Key, int] = field(default_factory=dict)
    values: dict[Key, int] = field(default_factory=dict)
    last_tables: dict[Key, int] = field(default_factory=dict)
    """The index of the last table of each array of tables."""

    def take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise _LostError
        self.at = match.end()
        return match.group()

    def header(self) -> Key:
        is_array = self.take(_OPENING) == "[["
        path: Key = ()
        parts = self._key_parts()
        for position, (part, offset) in enumerate(parts, 1):
            path = (*path, part)
            self._note(path, offset, offset)
            if is_array and position == len(parts):
                self.last_tables[path] = self.last_tables.get(path, -1) + 1
            if path in self.last_tables:
                path = (*path, self.last_tables[path])
                self._note(path, offset, offset)
        self.take(_CLOSING)
        return path

    def pair(self, path: Key) -> None:
        parts = self._key_parts()
        self._skip("=")
        self.take(_SPACE)
        for part, offset in parts:
            path = (*path, part)
            self._note(path, offset, self.at)
        self._value(path)

    def _key_parts(self) -> list[tuple[str, int]]:
        parts: list[tuple[str, int]] = []
        while not parts or self._skip(".", optional=True):
            self.take(_SPACE)
            offset = self.at
            parts.append((_unquoted(self.take(_PART)), offset))
            self.take(_SPACE)
        return parts

    def _value(self, path: Key) -> None:
        end = _ENDS.get(opened := self.take(_VALUE))
        if end is None:
            return
        for index in count():
            self.take(_BLANK)
            if self._skip(end, optional=True):
                return
            if opened == "{":
                self.pair(path)
            else:
                self._note((*path, index), self.at, self.at)
                self._value((*path, index))
            self.take(_BLANK)
            self._skip(",", optional=True)

    def _skip(self, expected: str, *, optional: bool = False) -> bool:
        found = self.text.startswith(expected, self.at)
        if not (found or optional):
            raise _LostError
        self.at += len(expected) * found
        return found

    def _note(self, path: Key, key: int, value: int) -> None:
        self.keys.setdefault(path, key)
        self.values.setdefault(path, value)


def _unquoted(raw: str) -> str:
    if raw.startswith('"') and "\\" in raw:
        return str(tomllib.loads(f"key = {raw}")["key"])
    return raw[1:-1] if raw[:1] in ('"', "'") else raw


def parse(text: str, name: str) -> tuple[dict[str, Any], Positions]:
    """Return the table of a TOML text and the positions of its keys; `name` is the file's. Raise GoalFileError."""
    text = text.replace("\r\n", "\n")
    try:
        return tomllib.loads(text), locate(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad_toml(error, text, name) from error
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else "a number has too many digits"
        raise refusal(name, f"is not valid TOML: {why}") from error


def _bad_toml(error: tomllib.TOMLDecodeError, text: str, name: str) -> GoalFileError:
    reason, _, where = str(error).partition(" (at ")
    numbers = [int(number) for number in re.findall(r"\d+", where)]
    place = (numbers[0], numbers[1]) if numbers else place_of(text, len(text.rstrip()))
    message = f"not valid TOML: {reason[:1].lower()}{reason[1:]}{'' if numbers else ', at the end of the file'}"
    header = text.split("\n")[place[0] - 1].strip() if numbers else ""
    if reason == "Cannot overwrite a value" and not header.startswith("["):
        message += "; a key is given twice, remove one of the two"
    elif reason == "Cannot overwrite a value":
        table = header.strip("[] ").partition(".")[0]
        remedy = (
            f'write {table} = "..." as {SHORT_TABLES[table]} = "..." in [{table}]'
            if table in SHORT_TABLES
            else ("write [[validators]] with run" if table == "validator" else f"write the value as a key of [{table}]")
        )
        message += f"; a table and its short form cannot be combined: {remedy}"
    return refusal(name, message, place)


def read_text(path: Path, missing: Callable[[], str] = str) -> str:
    """Return the text of a file, without a byte order mark. Raise GoalFileError.

    `missing` returns what the message adds if there is no such file.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise refusal(name, "is larger than 1 MB; a goal file is a few lines of TOML")
        return data.decode("utf-8").removeprefix("\ufeff")
    except FileNotFoundError as error:
        raise refusal(name, f"no such file{missing()}") from error
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        why = f"byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8; save the file as UTF-8"
        raise refusal(name, why, place_of(good, len(good))) from error
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise refusal(name, f"cannot be read: {why.lower()}") from error


def refusal(name: str, message: str, place: Place = NOWHERE) -> GoalFileError:
    """Return the error of a file as a whole."""
    return GoalFileError(name, (Problem(message=message, line=place[0], column=place[1]),))
