"""Excerpts of texts, with the beginning, the end and the decisive lines between; and fences around texts."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from goalrunner.judge.text_matching import readable, without_invisible

TOKEN = 3
"""The price of one token. Prices are bytes of UTF-8: in prose, code and logs, a token has at least three."""

LEAST_EVIDENCE = 500
"""The least tokens for evidence, beside the goal."""

OVERHEAD = 20
"""Tokens that a provider adds around the two messages."""

SECOND_LOOK = 2
"""Requested observations may take this many times the tokens of the prompt."""


def price_in_bytes(text: str) -> int:
    """Return the price of a text. Prices of texts that are joined add up."""
    return len(text.encode("utf-8", "replace"))


def beginning(text: str, room: int) -> str:
    """Return the longest beginning that costs at most `room`."""
    room = max(0, room)
    return text[
        : len(text[:room].encode("utf-8", "replace")[:room].decode("utf-8", "ignore"))
    ]


def ending(text: str, room: int) -> str:
    """Return the longest ending that costs at most `room`."""
    room = max(0, room)
    data = text[max(0, len(text) - room) :].encode("utf-8", "replace")
    return text[
        len(text) - len(data[max(0, len(data) - room) :].decode("utf-8", "ignore")) :
    ]


LONGEST = 240
"""Characters of one line that are kept, around its decisive words."""

_BEFORE = 60
_SEARCHED = 200_000
"""Characters at each end of a very long text that are searched."""
_DECISIVE = r"""
    ^[ ]{0,12}(?: =+[ ][^\n]*[ ]in[ ][\d.:]+s                             # pytest
       | \d+[ ](?:passed|failed|errors?|skipped)\b                         # pytest -q, others
       | (?:no[ ]tests[ ]ran|ran[ ]\d+[ ]tests?)\b                         # pytest, unittest
       | (?:OK|FAILED)(?:[ ]\([^\n]*\))?$                                  # unittest
       | (?:tests|test[ ]suites|test[ ]files|test[ ]result):?[ ][^\n]*\d   # jest, vitest, cargo
       | (?:ok[ ]*|FAIL)\t | ---[ ](?:PASS|FAIL):                          # go
       | (?:found|success|all[ ]checks)\b[^\n]*\b(?:errors?|issues?|passed)  # mypy, ruff
       | \W{0,3}\d+[ ]problems?[ ]\( | build[ ](?:successful|failed) | \d+[ ]files?[ ]changed\b
       | [^\n]{0,40}\b(?:exit(?:ed)?|return(?:ed)?)[ ](?:code|status|with)\b )
  | ^(?: E[ ]{2,}\S | FAILED[ ]\S                                          # pytest
       | (?:\w+\.){0,9}\w*(?:Error|Exception|Interrupt|Exit|Warning)(?::|$)  # the last line of a traceback
       | (?:diff[ ]--git|@@|\+\+\+|---)[ ] )
  | \b(?: errors?|fail(?:ed|ure|ures|s)?|exceptions?|traceback|fatal|panic(?:ked)?|denied|killed|aborted|timed[ ]?out
       | not[ ]found|no[ ]such[ ]file|segmentation[ ]fault|cannot|undefined )\b
"""


@cache
def _decisive() -> re.Pattern[str]:
    """Return the pattern, compiled when the first output is too long to be shown whole."""
    return re.compile(_DECISIVE, re.MULTILINE | re.IGNORECASE | re.VERBOSE)


def decisive(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each decisive line, outermost first: the last, the first, the last but one, ...

    The last comes first, because summaries are at the end.
    """
    spans: dict[int, int] = {}
    position = 0
    while match := _decisive().search(text, position):
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.start())
        position = end = len(text) if end < 0 else end
        if end - start > LONGEST:
            start = max(start, min(match.start() - _BEFORE, end - LONGEST))
            end = min(end, start + LONGEST)
        spans[start] = end
    found = list(spans.items())
    order = sorted(
        range(len(found)),
        key=lambda index: (min(index, len(found) - 1 - index), -index),
    )
    return [found[index] for index in order]


def excerpt(text: str, room: int, nonce: str) -> str:
    """Return a readable and inert text at a price of at most `room`, but at least the mark of the omission."""
    hidden = max(0, len(text) - 2 * _SEARCHED)
    ends = [text[:_SEARCHED], text[-_SEARCHED:]] if hidden else [text]
    # No provider takes half of a surrogate pair.
    shown = [
        inert(readable(end), nonce).encode("utf-8", "replace").decode() for end in ends
    ]
    whole = "\n".join(shown)
    return (
        whole
        if not hidden and price_in_bytes(whole) <= room
        else _shortened(whole, room, len(shown[0]), hidden)
    )


def mark(size: int) -> str:
    """Return the mark of an omission."""
    return f"[… {size:,} characters left out …]"


def _shortened(text: str, room: int, cut: int, hidden: int) -> str:
    """Return parts of a text: beginning, end and decisive lines. At `cut`, `hidden` characters were left out before."""
    # A mark stands on a line of its own. The rest of a line that follows it may look like a heading and need INERT.
    gap = price_in_bytes(f"\n{mark(len(text) + hidden)}\n{INERT}")
    head = min(cut, _head(text, min(room * 3 // 20, room - gap)))
    last = room // 4
    tail = len(text) - len(ending(text, min(last, room - gap)))
    left = room - gap - price_in_bytes(text[:head])
    kept = [(0, head)]
    for start, end in decisive(text):
        needed = price_in_bytes(text[start:end]) + gap
        if head < end <= tail and needed <= left - last:
            kept.append((start, end))
            left -= needed
    kept.append((max(_tail(text, left), cut + 1 if hidden else 0), len(text)))
    pieces, position = [""], 0
    for start, end in sorted(kept):
        omitted = start - position + (hidden if position <= cut <= start else 0)
        if (
            omitted <= gap and price_in_bytes(text[position:start]) <= gap
        ):  # a mark would be as long as the omission
            pieces[-1] += text[position:end]
        elif end > position:
            forged = is_forged(text[start:end].split("\n", 1)[0])
            pieces += [mark(omitted), f"{INERT if forged else ''}{text[start:end]}"]
        position = max(position, end)
    return "\n".join(filter(None, pieces))


def _head(text: str, room: int) -> int:
    """Return the end of the beginning that fits, at the end of a line if that costs little."""
    end = len(beginning(text, room))
    line_end = text.rfind("\n", 0, end)
    return line_end if line_end * 3 >= end * 2 else end


def _tail(text: str, room: int) -> int:
    """Return the start of the ending that fits, at the start of a line if that costs little."""
    start = len(text) - len(ending(text, room))
    line_end = text.find("\n", start)
    return (
        line_end + 1
        if line_end >= 0 and (line_end - start) * 3 <= len(text) - start
        else start
    )


INERT = "| "
"""The prefix of a line that looks like a heading or a fence."""

_WORDS = "command|output|claim|objective|criteria|constraints|said|changed|index|report"
_FORGED = re.compile(rf"\W*(?:\[\W*o\W*\d|<\W*(?:{_WORDS})\b)", re.IGNORECASE)
_BREAKS = re.compile("\r\n|[\r\u000b\u000c\u001c-\u001e\u0085\u2028\u2029]")
_LOOKED_AT = 300


def fence(name: str, text: str, nonce: str) -> str:
    """Return a text between fences that it cannot close."""
    return f"<{name} {nonce}>\n{text.replace(nonce, '[fence]')}\n</{name} {nonce}>"


def fenced(name: str, text: str, room: int, nonce: str) -> str:
    """Return an excerpt of a text between fences, at a price of at most `room`, but at least that of the smallest one."""
    return fence(
        name, excerpt(text, room - price_in_bytes(fence(name, "", nonce)), nonce), nonce
    )


def inert(text: str, nonce: str) -> str:
    """Return the text on plain lines, without the nonce, with `| ` before each line that looks like a heading or a fence."""
    text = _BREAKS.sub("\n", text.replace(nonce, "[fence]"))
    return "\n".join(
        INERT + line if is_forged(line) else line for line in text.split("\n")
    )


def is_forged(line: str) -> bool:
    """Return whether a line, however it is spelt in Unicode, looks like a heading or a fence."""
    if not line.isascii():
        # Invisible characters are removed first: many of them could hide a heading behind the limit.
        plain = without_invisible(line).strip()[:_LOOKED_AT]
        line = unicodedata.normalize("NFKC", plain).casefold()
    return ("[" in line or "<" in line) and _FORGED.match(
        line.strip()[:_LOOKED_AT]
    ) is not None
