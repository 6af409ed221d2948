"""Where tokens of known formats stand in a piece of text. Owns the search; the table of formats is `rules`."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass

from goalrunner.redaction.rules import LONGEST, RULES, Rule, token

CONTEXT = 3
"""Bytes before a token that say whether it begins there."""

_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_ESCAPED = re.compile(rb"(?:\\[nrt]|%[0-9A-Fa-f]{2})\Z")
"""What ends with a letter and yet is no part of a word: `\\n` and `%3D`."""


@dataclass(frozen=True)
class Span:
    """A stretch of text; `kind` names the secret that it is, None says that it stays as it is.

    `closed` is a replacement of before: nobody looks into it, and words end there.
    """

    start: int
    end: int
    kind: str | None
    closed: bool = False


class TokenSearch:
    """Finds tokens; `allow` holds texts that are none whatever they look like."""

    def __init__(self, allow: Collection[bytes] = ()) -> None:
        self._allow = frozenset(allow)
        self._rules = tuple((rule, rule.pattern) for rule in RULES)
        self._literals: dict[bytes, list[int]] = {}
        for number, rule in enumerate(RULES):
            for begin in rule.begins:
                self._literals.setdefault(begin, []).append(number)
        self.kinds = tuple(dict.fromkeys(rule.name for rule in RULES))
        """What tokens are counted as."""

    def candidates(self, data: bytes, start: int, end: int) -> list[tuple[int, int]]:
        """Places where the literals of rules stand, with the number of the rule, in order: a plain search for each."""
        found: list[tuple[int, int]] = []
        for literal, numbers in self._literals.items():
            place = data.find(literal, start, end)
            while place >= 0:
                found.extend((place, number) for number in numbers)
                place = data.find(literal, place + 1, end)
        return sorted(found)

    def spans(
        self,
        data: bytes,
        candidates: Sequence[tuple[int, int]],
        start: int,
        end: int,
        edge: int,
        breaks: Container[int] = (),
    ) -> Iterator[Span]:
        """The tokens that begin at `candidates` and lie in [start, end), in order.

        `edge` is where the text begins as far as words go: what stands before it is a replacement or nothing. A word
        may also begin at one of `breaks`. A token that begins inside an address is found before the address's password.
        """
        cursor = start
        first, last = bisect_left(candidates, (start, -1)), bisect_left(candidates, (end, -1))
        for place, number in candidates[first:last]:
            rule, pattern = self._rules[number]
            if place < cursor or not (rule.inside_words or place in breaks or _begins(data, place, edge)):
                continue
            found = self._secret(data, place, end, rule, pattern)
            if found is None:
                continue
            inner = self.candidates(data, place + 1, found.start) if found.start > place + 1 else []
            yield from self.spans(data, inner, place + 1, found.start, edge, breaks)
            yield found
            cursor = found.end
            edge = edge if found.kind is None else found.end

    def _secret(self, data: bytes, place: int, end: int, rule: Rule, pattern: re.Pattern[bytes]) -> Span | None:
        match = pattern.match(data, place, min(end, place + LONGEST))
        span = token(match, rule) if match else None
        if span is None:
            return None
        return Span(*span, None if data[slice(*span)] in self._allow else rule.name)


def _begins(data: bytes, place: int, edge: int) -> bool:
    if place == edge or place == 0 or data[place - 1] not in _WORD:
        return True
    before = data[max(place - CONTEXT, edge, 0) : place]
    return _ESCAPED.search(before) is not None
