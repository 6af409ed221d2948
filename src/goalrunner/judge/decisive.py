"""The lines of an output that say how it went: summaries, exit codes, errors, the last lines of tracebacks.

Owns which lines these are. Being decisive here proves nothing: it only keeps a line in sight when the rest is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

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
