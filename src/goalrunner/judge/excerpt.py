"""Excerpts of texts: the beginning, the end and the decisive lines between."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from goalrunner.judge.fences import INERT, fence, inert, is_forged
from goalrunner.judge.plain_text import readable
from goalrunner.judge.prices import beginning, ending, price_in_bytes

LONGEST = 240
"""Characters of one line that are kept, around its decisive words."""

_BEFORE = 60
"""Characters before the decisive words of a long line that are kept."""
# Outputs may have gigabytes, and summaries are at an end.
_SEARCHED = 200_000
"""Characters at each end of a very long text that are searched."""
_DECISIVE = r"""
    ^[ ]{0,12}(?: =+[ ][^\n]*[ ]in[ ][\d.:]+s       # pytest
       | \d+[ ](?:passed|failed|errors?|skipped)\b   # pytest -q, others
       | (?:no[ ]tests[ ]ran|ran[ ]\d+[ ]tests?)\b   # pytest, unittest
       | (?:OK|FAILED)(?:[ ]\([^\n]*\))?$            # unittest
       | (?:tests|test[ ]suites|test[ ]files):?[ ][^\n]*\d       # jest, vitest
       | test[ ]result:?[ ][^\n]*\d                  # cargo
       | (?:ok[ ]*|FAIL)\t | ---[ ](?:PASS|FAIL):    # go
       | (?:found|success|all[ ]checks)\b
         [^\n]*\b(?:errors?|issues?|passed)          # mypy, ruff
       | \W{0,3}\d+[ ]problems?[ ]\( | build[ ](?:successful|failed)
       | \d+[ ]files?[ ]changed\b
       | [^\n]{0,40}\b(?:exit(?:ed)?|return(?:ed)?)[ ](?:code|status|with)\b )
  | ^(?: E[ ]{2,}\S | FAILED[ ]\S                    # pytest
       # the last line of a traceback
       | (?:\w+\.){0,9}\w*(?:Error|Exception|Interrupt|Exit|Warning)(?::|$)
       | (?:diff[ ]--git|@@|\+\+\+|---)[ ] )
  | \b(?: errors?|fail(?:ed|ure|ures|s)?|exceptions?|traceback|fatal|panic(?:ked)?
       | denied|killed|aborted|timed[ ]?out|not[ ]found|no[ ]such[ ]file
       | segmentation[ ]fault|cannot|undefined )\b
"""


@cache
def _decisive() -> re.Pattern[str]:
    """Return the pattern.

    It is compiled when the first output is too long to be shown whole.
    """
    return re.compile(_DECISIVE, re.MULTILINE | re.IGNORECASE | re.VERBOSE)


def decisive(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each decisive line, outermost first.

    The last, the first, the last but one, ... The last comes first, because summaries
    are at the end.
    """
    spans: dict[int, int] = {}
    position = 0
    while match := _decisive().search(text, position):
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.start())
        if end < 0:
            end = len(text)
        position = end
        if end - start > LONGEST:
            start = max(start, min(match.start() - _BEFORE, end - LONGEST))
            end = min(end, start + LONGEST)
        spans[start] = end
    remaining = deque(spans.items())
    outermost: list[tuple[int, int]] = []
    while remaining:
        outermost.append(remaining.pop())
        if remaining:
            outermost.append(remaining.popleft())
    return outermost


def excerpt(text: str, room: int, nonce: str) -> str:
    """Return a readable and inert text at a price of at most `room`.

    A smaller room still gets the mark of the omission.
    """
    hidden = max(0, len(text) - 2 * _SEARCHED)
    parts: list[str] = []
    ends = [text[:_SEARCHED], text[-_SEARCHED:]] if hidden else [text]
    for part in ends:
        # No provider takes half of a surrogate pair.
        plain = inert(readable(part), nonce).encode("utf-8", "replace").decode()
        parts.append(plain)
    searched = "\n".join(parts)
    if not hidden and price_in_bytes(searched) <= room:
        return searched
    return _shortened(searched, room, _Cut(len(parts[0]), hidden))


@dataclass(frozen=True)
class _Cut:
    """Where characters in the middle of a very long text were left out before."""

    position: int
    characters: int
    """0 if the text is whole."""


def mark(size: int) -> str:
    """Return the mark of an omission."""
    return f"[… {size:,} characters left out …]"


def _shortened(text: str, room: int, cut: _Cut) -> str:
    """Return parts of a text: beginning, end and decisive lines."""
    # A mark stands on a line of its own. The rest of a line that follows it may look
    # like a heading and need INERT.
    gap = price_in_bytes(f"\n{mark(len(text) + cut.characters)}\n{INERT}")
    # The beginning gets 15 % of the room, and 25 % are reserved for the end. Decisive
    # lines between them get the rest; what they do not use makes the end longer.
    head_end = min(cut.position, _head(text, min(room * 3 // 20, room - gap)))
    reserved = room // 4
    tail_start = len(text) - len(ending(text, min(reserved, room - gap)))
    free = room - gap - price_in_bytes(text[:head_end])
    spans = [(0, head_end)]
    for start, end in decisive(text):
        price = price_in_bytes(text[start:end]) + gap
        is_between = head_end < end <= tail_start
        if is_between and price <= free - reserved:
            spans.append((start, end))
            free -= price
    # The tail may grow up to the characters that were left out before.
    earliest_start = cut.position + 1 if cut.characters else 0
    spans.append((max(_tail(text, free), earliest_start), len(text)))
    return _joined(text, sorted(spans), cut, gap)


def _joined(text: str, spans: Sequence[tuple[int, int]], cut: _Cut, gap: int) -> str:
    """Return the spans of a text, with marks for what is between them.

    `gap` is the price of a mark.
    """
    pieces, position = [""], 0
    for start, end in spans:
        omitted = start - position
        if position <= cut.position <= start:
            omitted += cut.characters
        # A text that costs no more than its mark is shown instead.
        if omitted <= gap and price_in_bytes(text[position:start]) <= gap:
            pieces[-1] += text[position:end]
        elif end > position:
            # The rest of a line may look like a heading, though the whole line did not.
            forged = is_forged(text[start:end].split("\n", 1)[0])
            pieces += [mark(omitted), f"{INERT if forged else ''}{text[start:end]}"]
        position = max(position, end)
    return "\n".join(filter(None, pieces))


def _head(text: str, room: int) -> int:
    """Return the end of the beginning that fits.

    It is the end of a line if that costs at most a third of the beginning.
    """
    end = len(beginning(text, room))
    line_end = text.rfind("\n", 0, end)
    return line_end if line_end * 3 >= end * 2 else end


def _tail(text: str, room: int) -> int:
    """Return the start of the ending that fits.

    It is the start of a line if that costs at most a third of the ending.
    """
    start = len(text) - len(ending(text, room))
    line_end = text.find("\n", start)
    if line_end >= 0 and (line_end - start) * 3 <= len(text) - start:
        return line_end + 1
    return start


def fenced(name: str, text: str, room: int, nonce: str) -> str:
    """Return an excerpt of a text between fences, at a price of at most `room`.

    A smaller room still gets the smallest excerpt.
    """
    room -= price_in_bytes(fence(name, "", nonce))
    return fence(name, excerpt(text, room, nonce), nonce)
