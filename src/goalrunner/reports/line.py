"""One line of progress, and how it is laid out in columns.

round 1    ✓ tests   pytest -q                  1.1 s   43 passed
label      mark name subject                     time   remark
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from goalrunner.reports.text import ELLIPSIS, clean, cut, one_line, pad, width, wrap

Tone = Literal["plain", "dim", "good", "bad", "warn", "bold"]
"""How a piece of text is meant; the terminal turns it into a colour."""

LABEL_COLUMNS = 11
_SUBJECT_COLUMNS = 23
_WIDE_SUBJECT_COLUMNS = 48
_TIME_END = 9
"""Columns behind the subject's at which a time ends."""
_PAIR_COLUMNS = (48, 38)
"""Columns of the left half of a header line; the first that fits."""
_LEAST_REMARK = 24
_MIN_COLUMNS = LABEL_COLUMNS + 3 + _SUBJECT_COLUMNS + _TIME_END
"""Columns, beside the name's, below which a remark stands below its step."""
_REMARK_ROWS = 4
_ASKED_ROWS = 12
_NAME_COLUMNS = 8
"""Columns that a name may take at least: those of "approval"."""
TAIL = 10
"""Lines of a failed validator's output that are shown."""
ASKED = "?"
"""The mark of what a person is to decide on."""
_LONGEST = 2_000
"""Characters of one text in a pipe, where no width cuts it."""
_DESIGN_WIDTH = 80


@dataclass(frozen=True)
class Span:
    """A piece of a row in one tone."""

    text: str
    tone: Tone = "plain"


Row = list[Span]


@dataclass(frozen=True)
class Step:
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
    """A line of the header or of the end: a label and what it says; `beside` is a second pair on the same line."""

    label: str
    text: str
    tone: Tone = "plain"
    beside: tuple[str, str] | None = None
    whole: bool = False
    """Never wrapped or cut: paths and commands that a person copies."""
    rows: int = _REMARK_ROWS
    """Rows of a terminal that the text may take."""


@dataclass(frozen=True)
class Quoted:
    """A line of something's output, under the line that names it: its blanks are kept, it is cut and never wrapped."""

    text: str


Line = Step | Fact | Quoted


@dataclass(frozen=True)
class Layout:
    """Turns lines into rows. `columns` None is a pipe: the layout of 80 columns, and almost nothing is cut."""

    columns: int | None = None
    name_columns: int = 7

    def text(self, lines: Iterable[Line]) -> str:
        """Return lines as text without colour."""
        return "".join(plain(self.rows(line)) for line in lines)

    def rows(self, line: Line) -> list[Row]:
        """Return the rows of one line; escape sequences and control characters are removed."""
        match line:
            case Step():
                return self._step(line)
            case Fact():
                return self._fact(line)
            case Quoted():
                room = _LONGEST if self.columns is None else max(self.columns - LABEL_COLUMNS, 1)
                text = clean(line.text.expandtabs(4)).replace("\n", " ").rstrip()
                return [[Span(" " * LABEL_COLUMNS), Span(cut(text, room), "dim")]]
            case _:
                assert_never(line)

    @property
    def _width(self) -> int:
        return self.columns or _DESIGN_WIDTH

    def _step(self, step: Step) -> list[Row]:
        name = pad(cut(one_line(step.name), max(self.name_columns, _NAME_COLUMNS)), self.name_columns)
        head = [Span(pad(step.label, LABEL_COLUMNS), "bold"), Span(f"{step.mark} ", step.tone), Span(f"{name} ")]
        subject, remark = one_line(step.subject), one_line(step.remark)
        more = (self._width - _DESIGN_WIDTH) // 2
        columns = min(max(_SUBJECT_COLUMNS, _SUBJECT_COLUMNS + more), _WIDE_SUBJECT_COLUMNS)
        columns -= width(name) - self.name_columns
        is_narrow = self.columns is not None and self.columns < _MIN_COLUMNS + self.name_columns
        if is_narrow or (step.mark == ASKED and width(subject) > columns):
            if self.columns is None:
                return [[*head, Span("   ".join(cut(text, _LONGEST) for text in (subject, remark) if text))]]
            return self._stacked(step, head, subject, remark, 2 if is_narrow else LABEL_COLUMNS + 2)
        subject = cut(subject, min(columns, columns + _TIME_END - 1 - width(step.time)))
        fill = max(columns + _TIME_END - width(subject) - width(step.time), 1) if step.time else 0
        body = subject + " " * fill + step.time
        if not remark:
            return [[*head, Span(body, "dim")]]
        body = body + " " * 3 if step.time else pad(f"{body} ", columns + 4)
        return self._with_remark([*head, Span(body, "dim")], remark, "plain" if step.tone == "dim" else step.tone)

    def _with_remark(self, row: Row, remark: str, tone: Tone) -> list[Row]:
        indent = sum(width(span.text) for span in row)
        if self.columns is None:
            return [[*row, Span(cut(remark, _LONGEST), tone)]]
        if self.columns - indent < _LEAST_REMARK:
            return [row, *self._indented(remark, LABEL_COLUMNS + 2, _REMARK_ROWS, tone)]
        first, *more = wrap(remark, self.columns - indent, _REMARK_ROWS)
        return [[*row, Span(first, tone)], *([Span(" " * indent + part, tone)] for part in more)]

    def _stacked(self, step: Step, head: Row, subject: str, remark: str, indent: int) -> list[Row]:
        """Return the remark below the step. What a person decides on is not cut."""
        room = self._width - sum(width(span.text) for span in head)
        if step.mark == ASKED:
            beside, rows = subject if width(subject) <= room else "", _ASKED_ROWS
            texts = [remark] if beside else [subject, remark]
        else:
            beside, rows = cut(subject, room), _REMARK_ROWS
            texts = ["  ".join(filter(None, (step.time, remark)))]
        row = [*head, Span(beside, "plain" if step.mark == ASKED else "dim")]
        if room <= 0:
            row = [Span(cut(f"{step.mark} {one_line(step.name)}", self._width), step.tone)]
        return [row, *(part for text in texts if text for part in self._indented(text, indent, rows))]

    def _indented(self, text: str, indent: int, most: int, tone: Tone = "plain") -> list[Row]:
        return [[Span(" " * indent + part, tone)] for part in wrap(text, self._width - indent, most)]

    def _fact(self, fact: Fact) -> list[Row]:
        label = Span(pad(fact.label, LABEL_COLUMNS), fact.tone if fact.tone in ("good", "bad", "warn") else "bold")
        text = one_line(fact.text)
        room = self._width - LABEL_COLUMNS
        if fact.beside is None:
            parts = [cut(text, _LONGEST)] if self.columns is None or fact.whole else wrap(text, room, fact.rows)
            return [[label, Span(parts[0])], *([Span(" " * LABEL_COLUMNS + part)] for part in parts[1:])]
        other, second = fact.beside[0], one_line(fact.beside[1])
        for columns in _PAIR_COLUMNS:
            if width(text) < columns and (self.columns is None or columns + 7 + width(second) <= room):
                other = pad(other, max(7, width(other) + 1))
                return [[label, Span(pad(text, columns)), Span(other, "bold"), Span(second)]]
        return [*self._fact(Fact(fact.label, text)), *self._fact(Fact(other, second))]


def output_lines(label: str, text: str, most: int = TAIL, tone: Tone = "plain") -> Iterator[Line]:
    """Yield the first line of a text under a label, then its last lines with their indentation."""
    first, *more = text.strip("\n").splitlines() or [""]
    yield Fact(label, first, tone)
    if len(more) > most:
        yield Quoted(ELLIPSIS)
    yield from (Quoted(line) for line in more[-most:])


def plain(rows: Sequence[Row]) -> str:
    """Rows as text without any colour, each ended by a newline."""
    return "".join("".join(span.text for span in row).rstrip() + "\n" for row in rows)
