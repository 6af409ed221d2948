"""One line of progress, and how it is laid out in columns.

round 1    ✓ tests   pytest -q                  1.1 s   43 passed
label      mark name subject                     time   remark
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """Turns lines into rows. `columns` None is a pipe: the layout of 80 columns, and nothing said is cut short."""

    columns: int | None = None
    name_columns: int = 7

    def rows(self, line: Line) -> list[Row]:
        """The rows of one line; all its text is made safe here."""
        match line:
            case Step():
                return self._step(line)
            case Fact():
                return self._fact(line)
            case Quoted():
                return self._quoted(line)
            case _:
                assert_never(line)

    @property
    def _width(self) -> int:
        return self.columns or _DESIGN_WIDTH

    def _subject_columns(self) -> int:
        more = (self._width - _DESIGN_WIDTH) // 2
        return min(max(_SUBJECT_COLUMNS, _SUBJECT_COLUMNS + more), _WIDE_SUBJECT_COLUMNS)

    def _step(self, step: Step) -> list[Row]:
        name = pad(cut(one_line(step.name), max(self.name_columns, _NAME_COLUMNS)), self.name_columns)
        head = [Span(pad(step.label, LABEL_COLUMNS), "bold"), Span(f"{step.mark} ", step.tone), Span(f"{name} ")]
        least = LABEL_COLUMNS + self.name_columns + 3 + _SUBJECT_COLUMNS + _TIME_END
        is_narrow = self.columns is not None and self.columns < least
        subject_columns = self._subject_columns() - (width(name) - self.name_columns)
        if step.mark == ASKED and (is_narrow or width(one_line(step.subject)) > subject_columns):
            return self._asked(step, head, 2 if is_narrow else LABEL_COLUMNS + 2)
        if is_narrow:
            return self._narrow(step, head)
        room = min(subject_columns, subject_columns + _TIME_END - 1 - width(step.time))
        subject = cut(one_line(step.subject), room)
        fill = max(subject_columns + _TIME_END - width(subject) - width(step.time), 1) if step.time else 0
        body = subject + " " * fill + step.time
        remark = one_line(step.remark)
        if not remark:
            return [[*head, Span(body, "dim")]]
        gap = 3 if step.time else max(subject_columns + 4 - width(body), 1)
        indent = LABEL_COLUMNS + 3 + width(name) + width(body) + gap
        return self._with_remark([*head, Span(body + " " * gap, "dim")], indent, remark, step.tone)

    def _with_remark(self, row: Row, indent: int, remark: str, tone: Tone) -> list[Row]:
        spoken: Tone = "plain" if tone == "dim" else tone
        if self.columns is None:
            return [[*row, Span(cut(remark, _LONGEST), spoken)]]
        if self.columns - indent >= _LEAST_REMARK:
            first, *more = wrap(remark, self.columns - indent, _REMARK_ROWS)
            return [[*row, Span(first, spoken)], *([Span(" " * indent + part, spoken)] for part in more)]
        return [row, *self._indented(remark, LABEL_COLUMNS + 2, spoken)]

    def _asked(self, step: Step, head: Row, indent: int) -> list[Row]:
        """What a person is to decide on is never cut where that can be helped."""
        subject, remark = one_line(step.subject), one_line(step.remark)
        if self.columns is None:
            return [[*head, Span("   ".join(cut(text, _LONGEST) for text in (subject, remark) if text))]]
        taken = width("".join(span.text for span in head))
        beside = subject if width(subject) <= self._width - taken else ""
        row = (
            [*head, Span(beside)]
            if taken <= self._width
            else [Span(cut(f"{ASKED} {one_line(step.name)}", self._width))]
        )
        more = [text for text in ("" if beside else subject, remark) if text]
        return [row, *(part for text in more for part in self._indented(text, indent, "plain", _ASKED_ROWS))]

    def _narrow(self, step: Step, head: Row) -> list[Row]:
        room = self._width - width("".join(span.text for span in head))
        rows = [[*head, Span(cut(one_line(step.subject), room), "dim")]]
        if room <= 0:
            rows = [[Span(cut("".join(span.text for span in head), self._width), step.tone)]]
        rest = "  ".join(part for part in (step.time, one_line(step.remark)) if part)
        return [*rows, *(self._indented(rest, 2, "plain") if rest else [])]

    def _indented(self, text: str, indent: int, tone: Tone, most: int = _REMARK_ROWS) -> list[Row]:
        parts = wrap(text, self._width - indent, most)
        return [[Span(" " * indent + part, tone)] for part in parts]

    def _quoted(self, line: Quoted) -> list[Row]:
        room = _LONGEST if self.columns is None else max(self.columns - LABEL_COLUMNS, 1)
        text = clean(line.text.expandtabs(4)).replace("\n", " ").rstrip()
        return [[Span(" " * LABEL_COLUMNS), Span(cut(text, room), "dim")]]

    def _fact(self, fact: Fact) -> list[Row]:
        label = Span(pad(fact.label, LABEL_COLUMNS), "good" if fact.tone == "good" else "bold")
        if fact.tone in ("bad", "warn"):
            label = Span(label.text, fact.tone)
        text = one_line(fact.text)
        room = self._width - LABEL_COLUMNS
        if fact.beside is None:
            parts = [cut(text, _LONGEST)] if self.columns is None or fact.whole else wrap(text, room, fact.rows)
            first, *more = parts
            return [[label, Span(first)], *([Span(" " * LABEL_COLUMNS + part)] for part in more)]
        other, said = fact.beside
        for columns in _PAIR_COLUMNS:
            if width(text) < columns and (self.columns is None or columns + 7 + width(said) <= room):
                return [
                    [
                        label,
                        Span(pad(text, columns)),
                        Span(pad(other, max(7, width(other) + 1)), "bold"),
                        Span(one_line(said)),
                    ]
                ]
        return [*self._fact(Fact(fact.label, text)), *self._fact(Fact(other, said))]


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
