"""Reading TOML files, with the line and column of keys, values and errors.

The standard library's parser reports no positions, so they come from a search for the
statements of the text.
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
        """Return the place of the key of `path`, or of the nearest table above."""
        return self._nearest(path, 0)

    def value(self, path: Key) -> Place:
        """Return the place of the value of `path`, or of the nearest table above."""
        return self._nearest(path, 1)

    def below(self, table: Key) -> Positions:
        """Return the positions in a table, relative to it."""
        depth = len(table)
        inner = {
            key[depth:]: offsets
            for key, offsets in self.offsets.items()
            if key[:depth] == table
        }
        return Positions(inner, self.text)

    def _nearest(self, path: Key, which: int) -> Place:
        # Inline tables have no positions of their own.
        for length in range(len(path), 0, -1):
            offsets = self.offsets.get(path[:length])
            if offsets is not None:
                return place_of(self.text, offsets[which])
        return NOWHERE


NO_POSITIONS = Positions({}, "")


def place_of(text: str, offset: int) -> Place:
    """Return line and column of an offset, in characters from 1.

    Only the newline character ends a line, as in TOML.
    """
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


_STRING = r"""
      # A text of several lines may have two quotes before the closing ones.
      \"{3} (?: \\. | [^\\] )*? \"{3} \"{0,2}
    | '{3} .*? '{3} '{0,2}
    | " (?: \\. | [^"\\] )* "
    | ' [^']* '
    """
_PART = re.compile(rf"{_STRING} | [A-Za-z0-9_-]+", re.DOTALL | re.VERBOSE)
_KEY = rf"(?:{_PART.pattern}) (?: [ \t]*\.[ \t]* (?:{_PART.pattern}) )*"
_STATEMENT = re.compile(
    rf"""[ \t]* (?:
        (?P<opening>\[\[?) [ \t]* (?P<table>{_KEY}) [ \t]* \]\]?
      | (?P<key>{_KEY}) [ \t]*=[ \t]*
    )""",
    re.DOTALL | re.VERBOSE,
)
_TOKEN = re.compile(
    rf"{_STRING} | \#[^\n]* | [ \t\r]+ | [\[\]{{}},\n] | [^\[\]{{}},\n\"'\#]+ | .",
    re.DOTALL | re.VERBOSE,
)


def locate(text: str) -> Positions:
    """Return the positions in a valid TOML text.

    They are those of tables, keys, and the elements of lists, but not of keys in inline
    tables.
    """
    positions = Positions({}, text)
    # The index of the last table of each array of tables.
    last_indices: dict[Key, int] = {}
    table: Key = ()
    offset = 0
    while offset < len(text):
        statement = _STATEMENT.match(text, offset)
        if statement is None:
            # The line is empty, or a comment.
            offset = _end_of_value(positions, (), offset)
        elif statement["opening"]:
            table = _add_table(positions, statement, last_indices)
            offset = _end_of_value(positions, table, statement.end())
        else:
            key = _add_key(positions, statement, table)
            offset = _end_of_value(positions, key, statement.end())
    return positions


def _add_table(
    positions: Positions, statement: re.Match[str], last_indices: dict[Key, int]
) -> Key:
    """Note the positions of the header of a table; return the table."""
    path: Key = ()
    parts = list(_PART.finditer(statement["table"]))
    for number, part in enumerate(parts, 1):
        path = (*path, _unquoted(part[0]))
        begin = statement.start("table") + part.start()
        positions.offsets.setdefault(path, (begin, begin))
        if statement["opening"] == "[[" and number == len(parts):
            last_indices[path] = last_indices.get(path, -1) + 1
        # A header such as [validators.expect] is about the last one.
        if path in last_indices:
            path = (*path, last_indices[path])
            positions.offsets.setdefault(path, (begin, begin))
    return path


def _add_key(positions: Positions, statement: re.Match[str], table: Key) -> Key:
    """Note the positions of a key in `table`, which may be dotted; return its path."""
    path = table
    for part in _PART.finditer(statement["key"]):
        path = (*path, _unquoted(part[0]))
        begin = statement.start("key") + part.start()
        positions.offsets.setdefault(path, (begin, statement.end()))
    return path


def _end_of_value(positions: Positions, path: Key, offset: int) -> int:
    """Return the end of a value's last line.

    Note the positions of the elements, if the value is a list.
    """
    text = positions.text
    depth = index = 0
    is_list = text.startswith("[", offset)
    for token in _TOKEN.finditer(text, offset):
        sign = token[0]
        if sign == "\n" and depth == 0:
            return token.end()
        begins_element = not sign.isspace() and sign[0] not in "],#"
        if is_list and depth == 1 and begins_element:
            position = (token.start(), token.start())
            positions.offsets.setdefault((*path, index), position)
        if depth == 1 and sign == ",":
            index += 1
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(sign, 0)
    return len(text)


def _unquoted(raw: str) -> str:
    # The parser decodes the escape sequences of a quoted key.
    if raw.startswith('"') and "\\" in raw:
        return str(tomllib.loads(f"key = {raw}")["key"])
    return raw[1:-1] if raw[:1] in ('"', "'") else raw


def parse(text: str, name: str) -> tuple[dict[str, Any], Positions]:
    """Return the table of a TOML text and the positions of its keys.

    Raise GoalFileError, with the file's `name`.
    """
    # tomllib does the same, so its lines and these offsets agree.
    text = text.replace("\r\n", "\n")
    try:
        return tomllib.loads(text), locate(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad_toml(error, text, name) from error
    except (ValueError, RecursionError) as error:
        reason = "a number has too many digits"
        if isinstance(error, RecursionError):
            reason = "nested too deep"
        raise file_refusal(name, f"is not valid TOML: {reason}") from error


def _bad_toml(error: tomllib.TOMLDecodeError, text: str, name: str) -> GoalFileError:
    """Return the error for a text that is not TOML, with its place."""
    reason, _, position = str(error).partition(" (at ")
    message = f"not valid TOML: {reason[:1].lower()}{reason[1:]}"
    numbers = [int(number) for number in re.findall(r"\d+", position)]
    if numbers:
        place = (numbers[0], numbers[1])
    else:
        # The parser says only "at end of document".
        place = place_of(text, len(text.rstrip()))
        message += ", at the end of the file"
    if reason == "Cannot overwrite a value":
        message += (
            "; a key is given twice, or in its short form beside its table: remove it,"
            " or write it in the table"
        )
    elif reason == "Invalid value":
        message += '; write text in quotes: key = "text"'
    elif reason == r"Illegal character '\n'":
        message += '; a text ends with a quote on the same line: key = "text"'
    return file_refusal(name, message, place)


def read_text(path: Path, missing: Callable[[], str] = str) -> str:
    """Return the text of a file, without a byte order mark. Raise GoalFileError.

    `missing` returns what the message adds if there is no such file.
    """
    name = str(path)
    try:
        # A pipe or a device has no size, so the reading itself is limited.
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise file_refusal(
                name, "is larger than 1 MB; a goal file is a few lines of TOML"
            )
        # Editors on Windows write a byte order mark.
        return data.decode("utf-8").removeprefix("\ufeff")
    except FileNotFoundError as error:
        raise file_refusal(name, f"no such file{missing()}") from error
    except UnicodeDecodeError as error:
        text_before = data[: error.start].decode("utf-8").removeprefix("\ufeff")
        message = (
            f"byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8;"
            " save the file as UTF-8"
        )
        place = place_of(text_before, len(text_before))
        raise file_refusal(name, message, place) from error
    # A path with a null character is a ValueError.
    except (OSError, ValueError) as error:
        reason = str(error)
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        raise file_refusal(name, f"cannot be read: {reason.lower()}") from error


def file_refusal(name: str, message: str, place: Place = NOWHERE) -> GoalFileError:
    """Return the error of a file as a whole."""
    return GoalFileError(
        name, (Problem(message=message, line=place[0], column=place[1]),)
    )
