"""Text as terminals show it, and the layout of lines in columns.

round 1    ✓ tests   pytest -q                  1.1 s   43 passed
label      mark name subject                     time   remark
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from rich.cells import cell_len, set_cell_size

ELLIPSIS = "…"
SHORT_ID = 12
"""Characters of a snapshot's id that are shown and can be typed."""
width = cell_len
"""Return the columns of printable text: wide characters take two, combining ones none."""

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS: title, links
    r"|\x1b[ -/]*[0-~]"
)
_PLAIN = re.compile(r"[\n\x20-\x7e]*")
_SPACES = "\t\x0b\x0c\x85\u2028\u2029"
_JOINERS = "\u200c\u200d"
_NOT_IN_XML = "\ufffe\uffff"


@lru_cache(maxsize=4096)
def _visible(character: str) -> str:
    """Return a character as it is shown; an empty text for control and direction characters."""
    if character in _SPACES:
        return " "
    if character in _JOINERS or character == "\n":
        return character
    shown = {"Cc": "", "Cf": "", "Cs": "\ufffd"}.get(
        unicodedata.category(character), character
    )
    return "" if shown in _NOT_IN_XML else shown


def printable(text: str) -> str:
    """Return the text without escape sequences, control and direction characters; newlines stay, a tab is a space."""
    return (
        text
        if _PLAIN.fullmatch(text)
        else "".join(map(_visible, _ESCAPES.sub("", text)))
    )


def printable_line(text: str) -> str:
    """Return printable text with every run of white space as one space."""
    return " ".join(printable(text).split())


def cut(text: str, columns: int) -> str:
    """Return the text in at most so many columns, with `…` where something is missing."""
    if width(text) <= columns:
        return text
    return set_cell_size(text, columns - 1).rstrip() + ELLIPSIS if columns > 0 else ""


def pad(text: str, columns: int) -> str:
    """Return the text, filled with spaces up to so many columns."""
    return text + " " * max(columns - width(text), 0)


def wrap(text: str, columns: int, rows: int) -> list[str]:
    """Return one line of printable text on at most so many rows; the last one is cut if there is more. Never empty."""
    columns, rest = max(columns, 1), text.strip()
    lines: list[str] = []
    while len(lines) < rows - 1 and width(rest) > columns:
        end = (
            next(
                index
                for index in range(columns, -1, -1)
                if width(rest[:index]) <= columns
            )
            or 1
        )
        space = rest.rfind(" ", 1, end + 1)
        end = space if space > 0 else end
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    last = cut(rest, columns)
    if last != rest and " " in last:
        last = last.rpartition(" ")[0] + ELLIPSIS
    return [*lines, last]


def hanging(line: str, columns: int, rows: int) -> list[str]:
    """Return a printable line of output on at most so many rows; rows after the first are indented by two more columns."""
    lead = line[: min(len(line) - len(line.lstrip()), columns // 2)]
    first, *more = (
        wrap(line, columns - len(lead) - 2, rows)
        if width(line) > columns
        else [line.strip()]
    )
    return [lead + first, *(f"{lead}  {part}" for part in more)]


def home_path(path: str) -> str:
    """Return a path with the home folder as `~`."""
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - pathlib raises where there is no home
    if not home or home == "~" or not f"{path}/".startswith(f"{home}/"):
        return path
    return f"~{path[len(home) :]}"


def model_name(model: str) -> str:
    """Return the name of a model; of a recording, the file name without folders."""
    provider, slash, path = model.partition("/")
    return (
        f"{provider}{slash}{path.rpartition('/')[2]}"
        if provider == "scripted"
        else model
    )


def table(
    rows: Sequence[Sequence[str]], columns: int | None = None, least: int = 0
) -> list[str]:
    """Return rows with aligned cells. The last column is cut to a terminal's width, but not below `least` columns."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    room = widths[-1] if columns is None else max(table_room(rows, columns), least)
    padded = [
        [pad(cell, wide) for cell, wide in zip(row[:-1], widths, strict=False)]
        for row in rows
    ]
    return [
        "  ".join([*cells, cut(row[-1], room)]).rstrip()
        for cells, row in zip(padded, rows, strict=True)
    ]


def table_room(rows: Sequence[Sequence[str]], columns: int) -> int:
    """Return the columns that are left for the last column of a table."""
    others = [max(map(width, column)) for column in zip(*rows, strict=True)][:-1]
    return columns - sum(others) - 2 * len(others)


Tone = Literal["plain", "dim", "good", "bad", "warn", "bold"]
"""How a piece of text is meant; the terminal turns it into a colour."""
_CODES: dict[Tone, str] = {
    "dim": "2",
    "good": "32",
    "bad": "31",
    "warn": "33",
    "bold": "1",
}

LABEL_COLUMNS, INDENT = 11, 13
"""Columns of a label, and the indentation of rows below a step."""
_NAME_COLUMNS, _LONGEST_NAME = 7, 16
_SUBJECT_COLUMNS, _WIDE_SUBJECT_COLUMNS = 23, 48
_TIME_END = 9
"""Columns between the end of the subject's column and the end of a time."""
_STEP_ROWS, _MOST_ROWS = 4, 12
"""Most rows of a terminal for the subject or remark of a step, and for any other text."""
_TAP_FAILURE = re.compile(
    r"^ *not ok .*\n(?: .*\n)*?( +)error: .*(?:\n(?:\1 .*| *$))*", re.MULTILINE
)
"""A failed test in the output of node:test, for example, up to the end of its error. Below it are stacks and counts."""
_TAP_DETAIL = re.compile(r" *(?:$|---|duration_ms:|failureType:|type:)")
TAIL = 10
"""Lines of a failed validator's output that are shown."""
ASKED, WARNED = "?", "!"
"""The marks of what a person is to decide on, and of a warning. Their texts are shown whole."""
_LONGEST = 2_000
"""Most characters of one text in a pipe, which has no width."""
_DESIGN_WIDTH = 80


class Piece(NamedTuple):
    """A piece of a row in one tone."""

    text: str
    tone: Tone = "plain"


Row = list[Piece]


@dataclass(frozen=True)
class StepLine:
    """Something that was done in a round: a tool call, a validator, an audit."""

    name: str
    mark: str = "·"
    subject: str = ""
    time: str = ""
    remark: str = ""
    tone: Tone = "dim"
    label: str = ""


@dataclass(frozen=True)
class Fact:
    """A line of the header or of the end: a label and a text."""

    label: str
    text: str
    tone: Tone = "plain"
    whole: bool = False
    """Never wrapped or cut: paths and commands that a person copies."""


@dataclass(frozen=True)
class Quoted:
    """A line of something's output, under the line that names it: its indentation is kept."""

    text: str
    margin: str = " " * LABEL_COLUMNS
    whole: bool = False
    """Wrapped on as many rows as it needs, and never cut."""


ReportLine = StepLine | Fact | Quoted


def laid_out(
    lines: Iterable[ReportLine], columns: int | None = None, *, colours: bool = False
) -> str:
    """Return lines as text without control characters, each row ended by a newline.

    `columns` None is a pipe: the layout of 80 columns, and almost nothing is cut.
    """
    rows = (row for line in lines for row in _rows(line, columns))
    return lines_text(_painted(row, colours) for row in rows)


def _painted(row: Row, colours: bool) -> str:
    text = ""
    for span in row:
        code = _CODES.get(span.tone) if colours and span.text.strip() else None
        text += f"\x1b[{code}m{span.text}\x1b[0m" if code else span.text
    return text.rstrip()


def _rows(line: ReportLine, columns: int | None) -> list[Row]:
    match line:
        case StepLine():
            return _step_rows(line, columns)
        case Fact():
            return _fact_rows(line, columns)
        case Quoted():
            return _quoted_rows(line, columns)


def _step_rows(step: StepLine, columns: int | None) -> list[Row]:
    """Return one row if it fits; else the subject is wrapped, and time and remark follow in their columns or below."""
    name = pad(cut(printable_line(step.name), _LONGEST_NAME), _NAME_COLUMNS)
    subject = cut(printable_line(step.subject), _LONGEST)
    remark = cut(printable_line(step.remark), _LONGEST)
    tone: Tone = "plain" if step.tone == "dim" else step.tone
    head = [
        Piece(pad(step.label, LABEL_COLUMNS), "bold"),
        Piece(f"{step.mark} ", step.tone),
        Piece(f"{name} "),
    ]

    more = max((columns or 0) - _DESIGN_WIDTH, 0) // 2
    subject_columns = min(_SUBJECT_COLUMNS + more, _WIDE_SUBJECT_COLUMNS) - (
        width(name) - _NAME_COLUMNS
    )
    time_columns = max(
        subject_columns + _TIME_END - width(subject), width(step.time) + 3
    )
    time = pad("", time_columns - width(step.time)) + step.time
    body = subject + time if step.time else pad(subject, subject_columns + 1)
    subject_tone: Tone = "dim" if remark else step.tone
    row = [*head, Piece(body, subject_tone)]
    if remark:
        row.append(Piece(f"   {remark}", tone))
    if columns is None or _width(row) <= columns:
        return [row]

    indent = width(name) + LABEL_COLUMNS + 3
    most = _MOST_ROWS if step.mark in (ASKED, WARNED) else _STEP_ROWS
    after = "   ".join(filter(None, (step.time, remark)))
    first, *others = wrap(subject or after, columns - indent, most)
    rows = [[*head, Piece(first, subject_tone if subject else tone)]]
    rows += [[Piece(" " * indent + part, subject_tone)] for part in others]
    subject_end = (
        INDENT + _NAME_COLUMNS + 1 + min(_SUBJECT_COLUMNS + more, _WIDE_SUBJECT_COLUMNS)
    )
    place = subject_end + (_TIME_END if step.time else 1)
    if (
        subject
        and after
        and place + 3 + width(remark) <= columns
        and width(step.time) < _TIME_END
    ):
        if _width(rows[-1]) > subject_end:
            rows.append([Piece("")])
        gap = place - _width(rows[-1]) - width(step.time)
        rows[-1] += [
            Piece(" " * gap + step.time, "dim"),
            Piece(f"   {remark}" if remark else "", tone),
        ]
    elif subject and after:
        rows += [
            [Piece(" " * INDENT + part, tone)]
            for part in wrap(after, columns - INDENT, most)
        ]
    return rows


def _fact_rows(fact: Fact, columns: int | None) -> list[Row]:
    text = printable_line(fact.text)
    parts = [cut(text, _LONGEST)]
    name = pad(f"{fact.label} ", LABEL_COLUMNS)
    if columns is not None and not fact.whole:
        parts = wrap(text, columns - width(name), _MOST_ROWS)
    label = Piece(name, fact.tone if fact.tone in ("good", "bad", "warn") else "bold")
    return [
        [label, Piece(parts[0])],
        *([Piece(" " * LABEL_COLUMNS + part)] for part in parts[1:]),
    ]


def _quoted_rows(line: Quoted, columns: int | None) -> list[Row]:
    text = printable(line.text.expandtabs(4)).replace("\n", " ").rstrip()
    most = len(text) + 1 if line.whole else _STEP_ROWS
    parts = [text]
    if columns is not None or not line.whole:
        parts = hanging(text, (columns or _LONGEST) - width(line.margin), most)
    return [[Piece(line.margin), Piece(part, "dim")] for part in parts]


def _width(row: Row) -> int:
    return width("".join(span.text for span in row))


def lines_text(lines: Iterable[str]) -> str:
    """Return lines as text, each ended by a newline."""
    return "".join(f"{line}\n" for line in lines)


def facts(
    label: str, texts: Iterable[str], tone: Tone = "plain", *, whole: bool = False
) -> Iterator[Fact]:
    """Yield a line for each text; the first one has the label."""
    yield from (
        Fact("" if index else label, text, tone, whole=whole)
        for index, text in enumerate(texts)
    )


def known(
    texts: Mapping[str, str], tone: Tone = "plain", *, whole: bool = False
) -> Iterator[Fact]:
    """Yield a line for each text that is not empty, by label."""
    yield from (
        Fact(label, text, tone, whole=whole) for label, text in texts.items() if text
    )


def output_lines(
    label: str, text: str, most: int = TAIL, tone: Tone = "plain"
) -> Iterator[ReportLine]:
    """Yield the first line of a text under a label, then its last lines, or of a TAP report the first failed test."""
    first, *more = text.strip("\n").splitlines() or [""]
    if failure := _TAP_FAILURE.search(text):
        more = [line for line in failure[0].splitlines() if not _TAP_DETAIL.match(line)]
    yield Fact(label, first, tone)
    if len(more) > most:
        yield Quoted(ELLIPSIS)
    yield from (Quoted(line) for line in more[-most:])
