"""The two ends of a text too long to be looked through. Owns where it is cut: so that a terminal shows both as it would.

A line that a program overwrote, a progress bar's for example, is only known once it is read to its end.
"""

from __future__ import annotations

import re

_MOVES = re.compile(r"[\r\b\x1b\x90\x9b\x9d]")


def ends(text: str, size: int) -> tuple[str, str]:
    """About `size` characters of each end, or the whole text and nothing where the ends meet.

    A line in which the cursor moves is not cut: an end that would cut one has all of it.
    """
    if len(text) <= 2 * size:
        return text, ""
    head, tail = size, len(text) - size
    begin, end = text.rfind("\n", 0, head) + 1, _line_end(text, head)
    if _MOVES.search(text, begin, end):
        head = end
    begin, end = text.rfind("\n", 0, tail) + 1, _line_end(text, tail)
    if _MOVES.search(text, begin, end):
        tail = begin
    return (text, "") if head >= tail else (text[:head], text[tail:])


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
