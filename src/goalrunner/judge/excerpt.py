"""A text made to fit: its beginning, its end, and the decisive lines between. Owns the cut; each one is marked by size."""

from __future__ import annotations

import re
from dataclasses import dataclass

from goalrunner.judge.budgeting import CHEAPEST, beginning, ending, price
from goalrunner.judge.decisive import decisive
from goalrunner.judge.ends import ends
from goalrunner.judge.fencing import INERT, inert, is_forged
from goalrunner.judge.normalisation import readable

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
