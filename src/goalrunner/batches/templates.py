"""Goals from a table: each row fills the columns that a template names."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalrunner.core.errors import (
    GoalFileError,
    Problem,
    UsageError,
    nearest,
    os_errors,
    quoted,
    some,
)
from goalrunner.goalfile.toml_text import Key, Positions, parse, read_text

_BRACES = re.compile(r"(?<!\$)(\{\{[^{}\n]+\}\}|\{[^{}\n]+\})")
"""A column in a text, or `{{name}}` for the text `{name}` itself. A variable of a
shell, `${name}`, is neither.
"""
_COLUMN_NAME = re.compile(r"[^\W\d][\w-]*")
"""What can only be meant as a column. Other braces are text of their own, such as
those of JSON, unless the table has a column of that name.
"""
_OWN_TEMPLATE = "resume_prompt"
"""The key whose text has placeholders of its own."""


@dataclass(frozen=True)
class Row:
    """One row of a table: its values by column."""

    number: int
    """From 1."""
    place: str
    """File and line, for messages."""
    values: Mapping[str, str]


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a CSV or JSONL file. Raise UsageError."""
    with os_errors(f"{path} cannot be read", "", UsageError):
        data = path.read_bytes()
    try:
        # Excel writes a mark of the encoding, which is no part of the first column.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: byte 0x{data[error.start]:02x} at offset {error.start} is not "
            "UTF-8",
            "save the file as UTF-8",
        ) from error
    read = _csv_rows if path.suffix.lower() == ".csv" else _json_rows
    rows = []
    for number, (line, values) in enumerate(read(path, text), 1):
        rows.append(Row(number, f"{path}:{line}", values))
    if not rows:
        raise UsageError(f"{path} has no rows", "write a row for each goal")
    return rows


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line and the values of each row; the first line has the columns."""
    # If not strict, a quote that is not closed takes the rest of the file silently.
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns: list[str] = []
    begin = 1
    try:
        for cells in reader:
            # A value in quotes may have line ends: a row begins after the one before.
            line, begin = begin, reader.line_num + 1
            if not columns:
                columns = [cell.strip() for cell in cells]
                _refuse_columns(path, columns)
            elif len(cells) == len(columns):
                yield line, dict(zip(columns, cells, strict=True))
            elif cells:
                raise UsageError(
                    f"{path}:{line}: the row has {len(cells)} values for "
                    f"{len(columns)} columns",
                    "put a value that contains a comma in quotes",
                )
    except csv.Error as error:
        raise UsageError(
            f"{path}:{reader.line_num}: {error}",
            "check that each quote is closed, from the row before this line",
        ) from error


def _refuse_columns(path: Path, columns: list[str]) -> None:
    for column in columns:
        if not column or columns.count(column) > 1:
            problem = "has no name" if not column else "is there twice"
            raise UsageError(
                f"{path}:1: the column {quoted(column)} {problem}",
                "name each column in the first line",
            )


def _json_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line and the values of each JSON object."""
    # `splitlines` would also divide texts at U+2028, which JSON allows in them.
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        try:
            row = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"{path}:{line}: not valid JSON: {error}", "write one object a line"
            ) from error
        if not isinstance(row, dict):
            raise UsageError(
                f"{path}:{line}: not a JSON object",
                'write one object a line: {"objective": "..."}',
            )
        values = {}
        for column, value in row.items():
            if not isinstance(value, str | int | float):
                raise UsageError(
                    f"{path}:{line}: the value of {quoted(column)} is neither text nor "
                    "a number",
                    "write a text",
                )
            values[column] = value if isinstance(value, str) else json.dumps(value)
        yield line, values


@dataclass(frozen=True)
class Template:
    """A goal file with columns in its texts."""

    path: Path
    """Absolute."""
    table: Mapping[str, Any]
    positions: Positions

    @classmethod
    def read(cls, path: Path) -> Template:
        """Return the template in a file. Raise GoalFileError."""
        table, positions = parse(read_text(path), str(path))
        return cls(path.absolute(), table, positions)

    def filled(self, row: Row) -> str:
        """Return the text of the goal file for a row.

        Raise GoalFileError for columns that the row does not have.
        """
        import tomli_w

        problems: list[Problem] = []

        def fill(text: str, key: Key) -> str:
            def value(match: re.Match[str]) -> str:
                name = match[0].strip("{}")
                is_known = name in row.values
                if not is_known and _COLUMN_NAME.fullmatch(name) is None:
                    return match[0]
                if match[0].startswith("{{"):
                    return f"{{{name}}}"
                if is_known:
                    return row.values[name]
                if key != (_OWN_TEMPLATE,):
                    problems.append(self._unknown(name, key, row))
                return match[0]

            # One pass: braces in a value from the table stay text.
            return _BRACES.sub(value, text)

        table = _mapped(self.table, fill)
        if problems:
            raise GoalFileError(str(self.path), tuple(problems))
        return tomli_w.dumps(table)

    def _unknown(self, name: str, key: Key, row: Row) -> Problem:
        line, column = self.positions.value(key)
        near = nearest(name, row.values)
        hint = f"did you mean {{{near}}}?" if near else f"it has {some([*row.values])}"
        message = (
            f"{row.place} has no column {quoted(name)}; {hint}"
            f"; for the text itself write {{{{{name}}}}}"
        )
        return Problem(message=message, key=str(key[-1]), line=line, column=column)


def _mapped(value: Any, change: Callable[[str, Key], str], key: Key = ()) -> Any:
    """Return a value of TOML with each text in it changed; keys stay."""
    if isinstance(value, str):
        return change(value, key)
    if isinstance(value, Mapping):
        return {
            name: _mapped(item, change, (*key, name)) for name, item in value.items()
        }
    if isinstance(value, list):
        return [
            _mapped(item, change, (*key, index)) for index, item in enumerate(value)
        ]
    return value
