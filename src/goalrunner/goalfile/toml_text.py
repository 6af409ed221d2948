"""Reading TOML files: their tables, the positions of keys and values, and errors with line and column.

The standard library's parser reports no positions, so they are found by a search for the statements of the text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.core.errors import GoalFileError, Problem

Key = tuple[str | int, ...]
"""The path to a value: `("validators", 0, "timeout")`."""

Place = tuple[int, int]
"""Line and column, from 1; (0, 0) when unknown."""

NOWHERE: Place = (0, 0)
LARGEST = 1_000_000
"""Bytes that a goal file may have."""


@dataclass(frozen=True)
class Positions:
    """The offsets of each key and its value in a text."""

    offsets: dict[Key, tuple[int, int]]
    text: str

    def key(self, path: Key) -> Place:
        """Return the place of the key of `path`, or of the nearest table around it."""
        return self._nearest(path, 0)

    def value(self, path: Key) -> Place:
        """Return the place of the value of `path`, or of the nearest table around it."""
        return self._nearest(path, 1)

    def below(self, table: Key) -> Positions:
        """Return the positions in a table, relative to it."""
        inner = {
            key[len(table) :]: at
            for key, at in self.offsets.items()
            if key[: len(table)] == table
        }
        return Positions(inner, self.text)

    def _nearest(self, path: Key, which: int) -> Place:
        for length in range(len(path), 0, -1):
            if path[:length] in self.offsets:
                return place_of(self.text, self.offsets[path[:length]][which])
        return NOWHERE


NO_POSITIONS = Positions({}, "")


def place_of(text: str, offset: int) -> Place:
    """Return line and column (in characters, from 1) of an offset; only the newline character ends a line, as in TOML."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


_STRING = r"""
      \"{3} (?: \\. | [^\\] )*? \"{3} \"{0,2}    # several lines; up to two quotes may stand before the closing ones
    | '{3} .*? '{3} '{0,2}
    | " (?: \\. | [^"\\] )* "
    | ' [^']* '
    """
_PART = re.compile(rf"{_STRING} | [A-Za-z0-9_-]+", re.DOTALL | re.VERBOSE)
_KEY = rf"(?:{_PART.pattern}) (?: [ \t]*\.[ \t]* (?:{_PART.pattern}) )*"
_STATEMENT = re.compile(
    rf"[ \t]* (?: (?P<opening>\[\[?) [ \t]* (?P<table>{_KEY}) [ \t]* \]\]? | (?P<key>{_KEY}) [ \t]*=[ \t]* )",
    re.DOTALL | re.VERBOSE,
)
_TOKEN = re.compile(
    rf"{_STRING} | \#[^\n]* | [ \t\r]+ | [\[\]{{}},\n] | [^\[\]{{}},\n\"'\#]+ | .",
    re.DOTALL | re.VERBOSE,
)


def locate(text: str) -> Positions:
    """Return the positions in a valid TOML text: of tables, keys, and the elements of lists; not of keys in inline tables."""
    found = Positions({}, text)
    counts: dict[Key, int] = {}  # the index of the last table of each array of tables
    table: Key = ()
    at = 0
    while at < len(text):
        statement = _STATEMENT.match(text, at)
        if statement is None:  # an empty line or a comment
            at = _end_of_value(found, (), at)
            continue
        opening, group = (
            statement["opening"],
            "table" if statement["opening"] else "key",
        )
        path: Key = () if opening else table
        parts = list(_PART.finditer(statement[group]))
        for number, part in enumerate(parts, 1):
            path = (*path, _unquoted(part[0]))
            begin = statement.start(group) + part.start()
            found.offsets.setdefault(
                path, (begin, begin if opening else statement.end())
            )
            if opening == "[[" and number == len(parts):
                counts[path] = counts.get(path, -1) + 1
            if opening and path in counts:
                path = (*path, counts[path])
                found.offsets.setdefault(path, (begin, begin))
        table = path if opening else table
        at = _end_of_value(found, path, statement.end())
    return found


def _end_of_value(found: Positions, path: Key, at: int) -> int:
    """Return the end of a value's last line, and note the positions of a list's elements."""
    depth = index = 0
    is_list = found.text.startswith("[", at)
    for token in _TOKEN.finditer(found.text, at):
        sign = token[0]
        if sign == "\n" and depth == 0:
            return token.end()
        if is_list and depth == 1 and not sign.isspace() and sign[0] not in "],#":
            found.offsets.setdefault((*path, index), (token.start(), token.start()))
        if depth == 1 and sign == ",":
            index += 1
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(sign, 0)
    return len(found.text)


def _unquoted(raw: str) -> str:
    if raw.startswith('"') and "\\" in raw:
        return str(tomllib.loads(f"key = {raw}")["key"])
    return raw[1:-1] if raw[:1] in ('"', "'") else raw


def parse(text: str, name: str) -> tuple[dict[str, Any], Positions]:
    """Return the table of a TOML text and the positions of its keys. Raise GoalFileError, with the file's `name`."""
    text = text.replace("\r\n", "\n")
    try:
        return tomllib.loads(text), locate(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad_toml(error, text, name) from error
    except (ValueError, RecursionError) as error:
        why = (
            "nested too deep"
            if isinstance(error, RecursionError)
            else "a number has too many digits"
        )
        raise file_refusal(name, f"is not valid TOML: {why}") from error


def _bad_toml(error: tomllib.TOMLDecodeError, text: str, name: str) -> GoalFileError:
    reason, _, where = str(error).partition(" (at ")
    numbers = [int(number) for number in re.findall(r"\d+", where)]
    place = (numbers[0], numbers[1]) if numbers else place_of(text, len(text.rstrip()))
    message = f"not valid TOML: {reason[:1].lower()}{reason[1:]}{'' if numbers else ', at the end of the file'}"
    if reason == "Cannot overwrite a value":
        message += "; a key is given twice, or in its short form beside its table: remove it, or write it in the table"
    elif reason == "Invalid value":
        message += '; write text in quotes: key = "text"'
    return file_refusal(name, message, place)


def read_text(path: Path, missing: Callable[[], str] = str) -> str:
    """Return the text of a file, without a byte order mark. Raise GoalFileError.

    `missing` returns what the message adds if there is no such file.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise file_refusal(
                name, "is larger than 1 MB; a goal file is a few lines of TOML"
            )
        return data.decode("utf-8").removeprefix("\ufeff")
    except FileNotFoundError as error:
        raise file_refusal(name, f"no such file{missing()}") from error
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        why = f"byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8; save the file as UTF-8"
        raise file_refusal(name, why, place_of(good, len(good))) from error
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise file_refusal(name, f"cannot be read: {why.lower()}") from error


def file_refusal(name: str, message: str, place: Place = NOWHERE) -> GoalFileError:
    """Return the error of a file as a whole."""
    return GoalFileError(
        name, (Problem(message=message, line=place[0], column=place[1]),)
    )
