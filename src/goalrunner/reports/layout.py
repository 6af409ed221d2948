"""The lines of a report, laid out in columns.

round 1    ✓ tests   pytest -q                  1.1 s   43 passed
label      mark name subject                     time   remark
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from goalrunner.reports.terminal_text import (
    ELLIPSIS,
    cut,
    hanging,
    join_nonempty,
    lines_text,
    pad,
    printable,
    printable_line,
    width,
    wrap,
)

Tone = Literal["plain", "dim", "good", "bad", "warn", "bold"]
"""How a piece of text is meant; the terminal turns it into a colour."""
# SGR parameters of ECMA-48; the colours are those of the user's theme.
_CODES: dict[Tone, str] = {
    "dim": "2",
    "good": "32",
    "bad": "31",
    "warn": "33",
    "bold": "1",
}

LABEL_COLUMNS, INDENT = 11, 13
"""Columns of a label, and the indentation of rows below a step."""
# A validator has the name that its goal file gives it.
_NAME_COLUMNS, _LONGEST_NAME = 7, 16
_SUBJECT_COLUMNS, _WIDE_SUBJECT_COLUMNS = 23, 48
# Columns between the end of the subject's column and the end of a time.
_TIME_END = 9
_GAP = "   "
# Most rows of a terminal for the subject or remark of a step, and for any other text.
_STEP_ROWS, _MOST_ROWS = 4, 12
# A failed test in the output of node:test, for example, up to the end of its error.
# Below it are stacks and counts.
_TAP_FAILURE = re.compile(
    r"^ *not ok .*\n(?: .*\n)*?( +)error: .*(?:\n(?:\1 .*| *$))*", re.MULTILINE
)
_TAP_DETAIL = re.compile(r" *(?:$|---|duration_ms:|failureType:|type:)")
TAIL = 10
"""Lines of a failed validator's output that are shown."""
ASKED, WARNED = "?", "!"
"""The marks of what a person is to decide on, and of a warning."""
# Most characters of one text in a pipe, which has no width.
_LONGEST = 2_000
# A wider terminal gives half of its further columns to the subject.
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
    """A line of output under the line that names it; its indentation is kept."""

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
    painted = []
    for line in lines:
        painted += [_painted(row, colours) for row in _rows(line, columns)]
    return lines_text(painted)


def _painted(row: Row, colours: bool) -> str:
    text = ""
    for piece in row:
        code = _CODES.get(piece.tone)
        # Spaces have no colour; codes around them would only make logs longer.
        if code and colours and piece.text.strip():
            text += f"\x1b[{code}m{piece.text}\x1b[0m"
        else:
            text += piece.text
    return text.rstrip()


def _rows(line: ReportLine, columns: int | None) -> list[Row]:
    match line:
        case StepLine():
            return _step_rows(line, columns)
        case Fact():
            return _fact_rows(line, columns)
        case Quoted():
            return _quoted_rows(line, columns)


@dataclass(frozen=True)
class _StepTexts:
    """The printable texts of a step."""

    head: Row
    """Label, mark and name."""
    name_width: int
    subject: str
    subject_tone: Tone
    time: str
    remark: str
    remark_tone: Tone


def _step_rows(step: StepLine, columns: int | None) -> list[Row]:
    """Return a step on one row if it fits, else on several."""
    name = pad(cut(printable_line(step.name), _LONGEST_NAME), _NAME_COLUMNS)
    remark = cut(printable_line(step.remark), _LONGEST)
    texts = _StepTexts(
        head=[
            Piece(pad(step.label, LABEL_COLUMNS), "bold"),
            Piece(f"{step.mark} ", step.tone),
            Piece(f"{name} "),
        ],
        name_width=width(name),
        subject=cut(printable_line(step.subject), _LONGEST),
        # The remark says how a step ended, and attracts the eye instead.
        subject_tone="dim" if remark else step.tone,
        time=step.time,
        remark=remark,
        remark_tone="plain" if step.tone == "dim" else step.tone,
    )
    row = _one_step_row(texts, _subject_columns(columns))
    if columns is None or _row_width(row) <= columns:
        return [row]
    # What a person decides on, and a warning, is shown whole.
    most_rows = _MOST_ROWS if step.mark in (ASKED, WARNED) else _STEP_ROWS
    return _several_step_rows(texts, columns, most_rows)


def _subject_columns(columns: int | None) -> int:
    further_columns = max((columns or 0) - _DESIGN_WIDTH, 0)
    return min(_SUBJECT_COLUMNS + further_columns // 2, _WIDE_SUBJECT_COLUMNS)


def _one_step_row(texts: _StepTexts, subject_columns: int) -> Row:
    # A long name takes its columns from the subject, so that times stay aligned.
    subject_columns -= texts.name_width - _NAME_COLUMNS
    if texts.time:
        free = subject_columns + _TIME_END - width(texts.subject)
        time_width = width(texts.time)
        gap = max(free, time_width + len(_GAP)) - time_width
        body = texts.subject + " " * gap + texts.time
    else:
        body = pad(texts.subject, subject_columns + 1)
    row = [*texts.head, Piece(body, texts.subject_tone)]
    if texts.remark:
        row.append(Piece(f"{_GAP}{texts.remark}", texts.remark_tone))
    return row


def _several_step_rows(texts: _StepTexts, columns: int, most_rows: int) -> list[Row]:
    """Return rows with a wrapped subject; time and remark follow beside or below it."""
    indent = LABEL_COLUMNS + len("· ") + texts.name_width + 1
    ending = join_nonempty(_GAP, texts.time, texts.remark)
    first, *others = wrap(texts.subject or ending, columns - indent, most_rows)
    first_tone = texts.subject_tone if texts.subject else texts.remark_tone
    rows = [[*texts.head, Piece(first, first_tone)]]
    rows += [[Piece(" " * indent + part, texts.subject_tone)] for part in others]
    if not (texts.subject and ending):
        return rows
    if _has_room_beside(texts, columns):
        _add_beside(rows, texts, columns)
        return rows
    for part in wrap(ending, columns - INDENT, most_rows):
        rows.append([Piece(" " * INDENT + part, texts.remark_tone)])
    return rows


def _has_room_beside(texts: _StepTexts, columns: int) -> bool:
    """Return whether time and remark fit into their columns, whole."""
    end = _time_end(texts, columns) + len(_GAP) + width(texts.remark)
    return end <= columns and width(texts.time) < _TIME_END


def _time_end(texts: _StepTexts, columns: int) -> int:
    return _subject_end(columns) + (_TIME_END if texts.time else 1)


def _subject_end(columns: int) -> int:
    return INDENT + _NAME_COLUMNS + 1 + _subject_columns(columns)


def _add_beside(rows: list[Row], texts: _StepTexts, columns: int) -> None:
    """Add time and remark to the last row, or to a new one if it is too long."""
    if _row_width(rows[-1]) > _subject_end(columns):
        rows.append([])
    last = rows[-1]
    gap = _time_end(texts, columns) - _row_width(last) - width(texts.time)
    last.append(Piece(" " * gap + texts.time, "dim"))
    if texts.remark:
        last.append(Piece(f"{_GAP}{texts.remark}", texts.remark_tone))


def _fact_rows(fact: Fact, columns: int | None) -> list[Row]:
    text = printable_line(fact.text)
    parts = [cut(text, _LONGEST)]
    name = pad(f"{fact.label} ", LABEL_COLUMNS)
    if columns is not None and not fact.whole:
        parts = wrap(text, columns - width(name), _MOST_ROWS)
    # A label in a plain or dim tone would not stand out.
    label_tone = fact.tone if fact.tone in ("good", "bad", "warn") else "bold"
    rows = [[Piece(name, label_tone), Piece(parts[0])]]
    rows += [[Piece(" " * LABEL_COLUMNS + part)] for part in parts[1:]]
    return rows


def _quoted_rows(line: Quoted, columns: int | None) -> list[Row]:
    text = printable(line.text.expandtabs(4)).replace("\n", " ").rstrip()
    parts = [text]
    if columns is not None or not line.whole:
        # A row has at least one character, so this is no limit for a whole line.
        most_rows = len(text) + 1 if line.whole else _STEP_ROWS
        parts = hanging(text, (columns or _LONGEST) - width(line.margin), most_rows)
    return [[Piece(line.margin), Piece(part, "dim")] for part in parts]


def _row_width(row: Row) -> int:
    return width("".join(piece.text for piece in row))


def facts(label: str, texts: Iterable[str], *, whole: bool = False) -> Iterator[Fact]:
    """Yield a line for each text; the first one has the label."""
    for text in texts:
        yield Fact(label, text, whole=whole)
        label = ""


def nonempty_facts(texts: Mapping[str, str], *, whole: bool = False) -> Iterator[Fact]:
    """Yield a line for each text that is not empty, by label."""
    for label, text in texts.items():
        if text:
            yield Fact(label, text, whole=whole)


def output_lines(
    label: str, text: str, most: int = TAIL, tone: Tone = "plain"
) -> Iterator[ReportLine]:
    """Yield the first line of a text under a label, then its last `most` lines.

    Of a TAP report, the first failed test is shown instead of the last lines.
    """
    first, *others = text.strip("\n").splitlines() or [""]
    if tap_failure := _TAP_FAILURE.search(text):
        lines = tap_failure[0].splitlines()
        others = [line for line in lines if not _TAP_DETAIL.match(line)]
    yield Fact(label, first, tone)
    if len(others) > most:
        yield Quoted(ELLIPSIS)
    for line in others[-most:]:
        yield Quoted(line)
