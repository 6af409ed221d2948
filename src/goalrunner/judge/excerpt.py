"""A text shortened to a budget of tokens: beginning, end, and the decisive lines between."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from goalrunner.judge.text import INERT, ends, inert, is_forged, readable

TOKEN = 20
"""The price of one token. Prices are whole numbers: twentieths of a token."""

LEAST_EVIDENCE = 500
"""Tokens that the evidence needs beside the goal; with less an audit makes no sense."""

OVERHEAD = 20
"""Tokens for what a provider puts around the two messages."""

SECOND_LOOK = 2
"""What a judge that asks for whole observations gets for them: this many times the tokens of the prompt itself."""

CHEAPEST = 5
"""Price of the cheapest character."""


def _price(byte: int) -> int:
    if byte >= 0xF0:
        return 20  # the first of four: emoji and rare signs, some 2.5 tokens
    if byte >= 0x80:
        return 10
    character = chr(byte)
    if character.islower() or character == " ":
        return CHEAPEST
    if character.isupper():
        return 8
    return 12 if character.isdigit() else 10 if character == "\n" else 13


_PRICES = bytes(_price(byte) for byte in range(256))


def price(text: str) -> int:
    """What a text takes, in twentieths of a token. The price of two texts together is the sum of theirs."""
    return sum(_priced(text))


def tokens(text: str) -> int:
    """What a text takes, in tokens, rounded up."""
    return -(-price(text) // TOKEN)


def beginning(text: str, room: int) -> str:
    """The longest beginning that costs at most `room`."""
    within = text[: max(0, room) // CHEAPEST]
    data = within.encode("utf-8", "replace")
    kept = bisect_right(list(accumulate(data.translate(_PRICES))), room)
    return within[: len(data[:kept].decode("utf-8", "ignore"))]


def ending(text: str, room: int) -> str:
    """The longest ending that costs at most `room`."""
    longest = max(0, room) // CHEAPEST
    within = text[len(text) - longest :] if longest < len(text) else text
    data = within.encode("utf-8", "replace")
    kept = bisect_right(list(accumulate(reversed(data.translate(_PRICES)))), room)
    count = len(data[len(data) - kept :].decode("utf-8", "ignore"))
    return within[len(within) - count :]


def _priced(text: str) -> bytes:
    return text.encode("utf-8", "replace").translate(_PRICES)


LONGEST = 240
"""Characters of one line that are kept; of a longer one those around what makes it decisive."""

_BEFORE = 60
_MOST = 4_000

_SUMMARIES = r"""
    ^[ ]{0,12}(?: =+[ ][^\n]*[ ]in[ ][\d.:]+s                             # pytest
       | \d+[ ](?:passed|failed|errors?|skipped)\b                         # pytest -q, others
       | (?:no[ ]tests[ ]ran|ran[ ]\d+[ ]tests?)\b                         # pytest, unittest
       | (?:OK|FAILED)(?:[ ]\([^\n]*\))?$                                  # unittest
       | (?:tests|test[ ]suites|test[ ]files|test[ ]result):?[ ][^\n]*\d   # jest, vitest, cargo
       | (?:ok[ ]*|FAIL)\t | ---[ ](?:PASS|FAIL):                          # go
       | (?:found|success|all[ ]checks)\b[^\n]*\b(?:errors?|issues?|passed)  # mypy, ruff
       | \W{0,3}\d+[ ]problems?[ ]\( | build[ ](?:successful|failed)
       | \d+[ ]files?[ ]changed\b
       | [^\n]{0,40}\b(?:exit(?:ed)?|return(?:ed)?)[ ](?:code|status|with)\b )
"""
_ERRORS = r"""
    ^(?: E[ ]{2,}\S | (?:FAILED|ERROR)[ ]\S                               # pytest
       | (?:\w+\.){0,9}\w*(?:Error|Exception|Interrupt|Exit|Warning)(?::|$)  # the last line of a traceback
       | (?:fatal|panic|error)\b
       | [^\n]{0,200}(?:\berror(?:\[\w+\])?:|\bpanicked[ ]at\b) )
"""
_HINTS = r"""
    \b(?: errors?|fail(?:ed|ure|ures|s)?|exceptions?|traceback|fatal|denied|killed|aborted|timed[ ]?out|not[ ]found
       | no[ ]such[ ]file|segmentation[ ]fault|cannot|undefined )\b
  | ^(?:diff[ ]--git|@@|\+\+\+|---)[ ]
"""


@dataclass(frozen=True)
class Span:
    """A line, or the part of it that is kept: from `start` to `end` in the text."""

    start: int
    end: int
    rank: int
    """0: a summary or an exit code; 1: an error; 2: a word that hints at one."""


def decisive(text: str) -> list[Span]:
    """The decisive lines of a text, the most telling first; of equals the outermost first.

    The first error and the last are worth more than the hundredth of a thousand that say the same.
    """
    found: list[Span] = []
    known: set[int] = set()
    for rank, form in enumerate(_forms()):
        spans = [span for span in _lines(text, form, rank) if span.start not in known]
        known.update(span.start for span in spans)
        found.extend(_outermost_first(spans))
    return found


@cache
def _forms() -> tuple[re.Pattern[str], ...]:
    """Compiled when the first output is too long to be shown whole."""
    return tuple(re.compile(form, re.MULTILINE | re.IGNORECASE | re.VERBOSE) for form in (_SUMMARIES, _ERRORS, _HINTS))


def _lines(text: str, form: re.Pattern[str], rank: int) -> Iterator[Span]:
    position = 0
    for _ in range(_MOST):
        match = form.search(text, position)
        if match is None:
            return
        start = text.rfind("\n", 0, match.start()) + 1
        position = text.find("\n", match.start())
        position = len(text) if position < 0 else position
        yield _span(start, position, match.start(), rank)


def _span(start: int, end: int, found: int, rank: int) -> Span:
    if end - start > LONGEST:
        start = max(start, min(found - _BEFORE, end - LONGEST))
        end = min(end, start + LONGEST)
    return Span(start, end, rank)


def _outermost_first(spans: list[Span]) -> list[Span]:
    order = sorted(range(len(spans)), key=lambda index: (min(index, len(spans) - 1 - index), -index))
    return [spans[index] for index in order]


LEFT_OUT = re.compile(r"\[(?:…|\.\.\.) [\d,]+ characters left out (?:…|\.\.\.)\]")
"""The mark of an omission inside a text, as shown and as normalised."""

Interval = tuple[int, int]

_LOOKED_THROUGH = 40
"""For each character that can be shown, so many of each end of a very long text are looked through."""
_LEAST_LOOKED_THROUGH = 100_000


@dataclass(frozen=True)
class _Text:
    """A readable text, or the two ends of one that is too long to be looked through, and how much lies between."""

    text: str
    seam: int = 0
    unseen: int = 0

    def size(self, start: int, end: int) -> int:
        """How many characters lie between two places, seen or not."""
        return end - start + (self.unseen if self.parted(start, end) else 0)

    def parted(self, start: int, end: int) -> bool:
        """Whether something unseen lies between two places."""
        return self.unseen > 0 and start <= self.seam <= end

    def price(self, interval: Interval) -> int:
        """What the characters between two places cost."""
        return price(self.text[interval[0] : interval[1]])


def excerpt(text: str, room: int, nonce: str) -> str:
    """A readable text on plain lines, at a price of at most `room`, unless not even the mark of its omission fits.

    What stands in it is inert. A text far too long to be shown is looked through at its two ends alone.
    """
    if not text:
        return ""
    whole = _looked_through(text, room, nonce)
    length = len(whole.text)
    if not whole.unseen and price(whole.text) <= room:
        return whole.text
    # A line ends before a mark and after it; what follows may be the rest of a line and look like a heading.
    gap = price(f"\n{mark(whole.size(0, length))}\n{INERT}")
    room -= gap
    head = _head(whole.text, room * 3 // 20)
    tail = length - len(ending(whole.text, room // 4))
    kept = [head]
    left = room - whole.price(head)
    for span in decisive(whole.text):
        needed = whole.price((span.start, span.end)) + gap
        if head[1] < span.end <= tail and needed <= left - room // 4:
            kept.append((span.start, span.end))
            left -= needed
    kept.append(_tail(whole.text, left))
    return _composed(whole, _merged(whole, kept, gap))


def mark(size: int) -> str:
    """What stands where so many characters are left out."""
    return f"[… {size:,} characters left out …]"


def _looked_through(text: str, room: int, nonce: str) -> _Text:
    first, last = ends(text, max(_LEAST_LOOKED_THROUGH, room // CHEAPEST * _LOOKED_THROUGH))
    if not last:
        return _Text(_shown(text, nonce))
    head = _shown(first, nonce)
    return _Text(head + _shown(last, nonce), seam=len(head), unseen=len(text) - len(first) - len(last))


def _shown(text: str, nonce: str) -> str:
    # Half of a surrogate pair is no text: no provider takes it.
    return inert(readable(text), nonce).encode("utf-8", "replace").decode()


def _head(text: str, room: int) -> Interval:
    """The beginning, up to the end of a line where that costs little."""
    end = len(beginning(text, room))
    line_end = text.rfind("\n", 0, end)
    return (0, line_end if line_end * 3 >= end * 2 else end)


def _tail(text: str, room: int) -> Interval:
    """The end, from the beginning of a line where that costs little."""
    start = len(text) - len(ending(text, room))
    line_end = text.find("\n", start)
    return (line_end + 1 if line_end >= 0 and (line_end - start) * 3 <= len(text) - start else start, len(text))


def _merged(whole: _Text, kept: list[Interval], gap: int) -> list[Interval]:
    """In order, and as one where what lies between costs no more than the mark of its omission."""
    merged: list[Interval] = []
    for start, end in sorted(kept):
        if merged:
            before = merged[-1]
            between = (before[1], start)
            if start <= before[1] or (not whole.parted(*between) and whole.price(between) <= gap):
                merged[-1] = (before[0], max(before[1], end))
                continue
        merged.append((start, end))
    return merged


def _composed(whole: _Text, kept: list[Interval]) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in kept:
        piece = whole.text[start:end]
        if start > position:
            pieces.append(mark(whole.size(position, start)))
            piece = INERT + piece if is_forged(piece.split("\n", 1)[0]) else piece
        if piece:
            pieces.append(piece)
        position = end
    if position < len(whole.text):
        pieces.append(mark(whole.size(position, len(whole.text))))
    return "\n".join(pieces)
