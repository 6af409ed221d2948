"""Text without the terminal sequences and carriage returns in it, in which a secret is found that they split.

Places in the visible text are mapped back to the raw one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate

_SEQUENCE = re.compile(
    rb"(\x1b(?:\[[0-?]{0,64}+[ -/]{0,4}+[@-~]"  # colours, movements of the cursor
    rb"|\][^\x07\x1b\r\n]{0,4096}+(?:\x07|\x1b\\)"  # titles, links
    rb"|[()*+#%][0-9A-Za-z@]|[78=>])|\r)"  # character sets, modes
)


class VisibleText:
    """Raw text, and `data`: the same without sequences of control codes and carriage returns."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        pieces = _SEQUENCE.split(raw)  # text and sequences by turns
        self.data = b"".join(pieces[::2])
        ends = list(accumulate(map(len, pieces)))
        # Where something was left out: in `data`, and its start and end in the raw text.
        self._places = list(accumulate(map(len, pieces[:-1:2])))
        self._starts, self._ends = ends[:-1:2], ends[1::2]

    def __contains__(self, place: object) -> bool:
        """Return whether something was left out before this place of `data`; a word may begin there."""
        if not isinstance(place, int):
            return False
        number = bisect_left(self._places, place)
        return number < len(self._places) and self._places[number] == place

    @property
    def has_commands(self) -> bool:
        """Whether text was left out that a sequence carries, such as the address of a link."""
        return b"\x1b]" in self._raw

    def raw_place(self, place: int) -> int:
        """Return where the byte at a place of `data` is in the raw text."""
        return place + self._shift(bisect_right(self._places, place))

    def raw_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of the raw text for one of `data` that is not empty, without sequences around it."""
        return self.raw_place(start), self.raw_place(end - 1) + 1

    def place(self, raw_place: int) -> int:
        """Return how many bytes of `data` lie before a place of the raw text."""
        number = bisect_left(self._starts, raw_place)
        return max(self._places[number - 1], raw_place - self._shift(number)) if number else raw_place

    def _shift(self, number: int) -> int:
        """Return how many bytes were left out at the first places, `number` of them."""
        return self._ends[number - 1] - self._places[number - 1] if number else 0


def without_codes(raw: bytes) -> bytes:
    """Return text without sequences of control codes and carriage returns; line ends stay."""
    return _SEQUENCE.sub(b"", raw) if b"\x1b" in raw or b"\r" in raw else raw


def visible_text(raw: bytes) -> VisibleText | None:
    """Return the visible text; None where a search of the raw text finds the same.

    Line ends of two characters split no secret: they are known spellings of a line end.
    """
    if b"\x1b" in raw or raw.count(b"\r") != raw.count(b"\r\n"):
        return VisibleText(raw)
    return None
