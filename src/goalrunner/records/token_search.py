"""Where tokens of known formats stand in text that comes in pieces."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from goalrunner.records.secret_values import VisibleText, visible_text
from goalrunner.records.token_formats import FORMATS, LONGEST, MARKER, TokenFormat, token

CONTEXT = 3
"""Bytes before a token that decide whether it begins there."""

_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_ESCAPED = re.compile(rb"(?:\\[nrt]|%[0-9A-Fa-f]{2})\Z")
"""Escapes that end with a letter or digit and are no part of a word: `\\n` and `%3D`."""


@dataclass(frozen=True)
class Span:
    """A part of a text; `kind` names the secret that it is, None means that it stays as it is.

    `closed` marks an earlier replacement, which is not searched; words end there.
    """

    start: int
    end: int
    kind: str | None
    closed: bool = False


class TokenSearch:
    """Finds tokens; `allow` holds texts that are never replaced."""

    def __init__(self, allow: Collection[bytes] = ()) -> None:
        self._allow = frozenset(allow)
        self._rules = tuple((rule, rule.pattern) for rule in FORMATS)
        self._literals: dict[bytes, list[int]] = {}
        for number, rule in enumerate(FORMATS):
            for begin in rule.begins:
                self._literals.setdefault(begin, []).append(number)
        self.kinds = tuple(dict.fromkeys(rule.name for rule in FORMATS))
        """The kinds by which tokens are counted."""

    def candidates(self, data: bytes, start: int, end: int) -> list[tuple[int, int]]:
        """Return the places of the rules' literals, with the number of the rule, in order."""
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
        """Yield the tokens that begin at `candidates` and lie in [start, end), in order.

        A word may begin at `edge`, where a replacement or nothing stands before, and at one of `breaks`. A token that
        begins inside an address is found before the address's password.
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

    def _secret(self, data: bytes, place: int, end: int, rule: TokenFormat, pattern: re.Pattern[bytes]) -> Span | None:
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


_STEP = 1 << 16
"""Bytes that are collected before the search of a stream continues."""

_MOST = 4
"""Lengths of the longest secret that are held of a stream, because control codes in a secret make it longer."""


@dataclass(frozen=True)
class Passage:
    """A piece of a stream. `kind` names the secret that it is; None: it is text.

    `closed` marks an earlier replacement, which is not searched.
    """

    text: bytes
    kind: str | None = None
    closed: bool = False


class Passages:
    """Cuts streams by the spellings of values, and by the formats of tokens in between."""

    def __init__(
        self, forms: Mapping[bytes, str], roots: Iterable[bytes], markers: bytes, longest: int, tokens: TokenSearch
    ) -> None:
        """`roots` are the forms that hold no other form, `markers` is a pattern of every replacement, and `longest` the
        length of the longest form or replacement.
        """
        self._forms = forms
        self._roots = tuple(roots)
        self._markers = markers
        self._tokens = tokens
        self._hold = longest + LONGEST
        self._buffer = b""
        self._begin = 0
        self._edge = 0

    def cut(self, chunks: Iterable[bytes]) -> Iterator[Passage]:
        """Yield the passages of one stream. Hold one chunk and some 200 KB."""
        waiting: list[bytes] = []
        size = 0
        for chunk in chunks:
            waiting.append(chunk)
            size += len(chunk)
            if size >= self._hold + _STEP:
                yield from self._advance(b"".join(waiting), last=False)
                waiting, size = [], 0
        yield from self._advance(b"".join(waiting), last=True)

    def _advance(self, more: bytes, *, last: bool) -> Iterator[Passage]:
        """Yield what no later byte can change; keep the rest, and a little before it."""
        data = self._buffer + more
        view = visible_text(data)
        limit = len(data) if last else self._limit(data, view)
        place = self._begin
        for span in self._found(data, view, limit):
            if span.start > place:
                yield Passage(data[place : span.start])
            yield Passage(data[span.start : span.end], span.kind, closed=span.closed)
            place = span.end
            if span.kind or span.closed:
                self._edge = span.end
        end = max(limit, place)
        if end > place:
            yield Passage(data[place:end])
        kept = max(0, end - CONTEXT) if view is None else min(end, view.raw_place(max(0, view.place(end) - CONTEXT)))
        self._buffer, self._begin, self._edge = data[kept:], end - kept, self._edge - kept

    def _limit(self, data: bytes, view: VisibleText | None) -> int:
        """Return up to where secrets begin that end in `data`."""
        limit = len(data) - self._hold
        if view is not None:
            visible = max(len(view.data) - self._hold, view.place(max(0, len(data) - _MOST * self._hold)))
            limit = view.raw_place(visible)
        return max(self._begin, limit)

    def _found(self, data: bytes, view: VisibleText | None, limit: int) -> Iterable[Span]:
        """Return the spans that begin before `limit`, in order, also those of secrets that control codes split."""
        if view is None:
            return self._spans(data, self._begin, limit, self._edge)
        begin, end, edge = view.place(self._begin), view.place(limit), view.place(max(0, self._edge))
        found = [
            replace(span, start=first, end=last)
            for span in self._spans(view.data, begin, end, edge, view)
            for first, last in [view.raw_span(span.start, span.end)]
        ]
        return _merged(found, self._spans(data, self._begin, limit, self._edge)) if view.has_commands else found

    def _spans(self, data: bytes, start: int, limit: int, edge: int, breaks: Container[int] = ()) -> Iterator[Span]:
        """Yield values and replacements, and tokens between them, that begin before `limit`."""
        candidates = self._tokens.candidates(data, start, limit)
        for span in self._literals(data, start):
            yield from self._tokens.spans(data, candidates, start, span.start, edge, breaks)
            if span.start >= limit:
                return
            yield span
            start = edge = span.end
        yield from self._tokens.spans(data, candidates, start, len(data), edge, breaks)

    def _literals(self, data: bytes, start: int) -> Iterator[Span]:
        """Yield values and replacements. A plain search comes first: it is a hundred times faster than a pattern of all forms."""
        here = [root for root in self._roots if root in data]
        needles = [needle for needle in self._forms if needle in data] if here else []
        if not needles and MARKER.encode() not in data:
            return
        alternatives = b"|".join(map(re.escape, needles)) or b"(?!)"
        for match in re.compile(b"(?:%s)|(%s)" % (self._markers, alternatives)).finditer(data, start):
            needle = match[1]
            yield Span(*match.span(), None if needle is None else self._forms[needle], closed=needle is None)


def _merged(one: Iterable[Span], other: Iterable[Span]) -> list[Span]:
    """Return the spans of two searches in order. Where two overlap, a secret goes before what stays as it is."""
    merged: list[Span] = []
    for span in sorted((*one, *other), key=lambda span: (span.start, -span.end)):
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(span)
        elif span.kind is not None and last.kind is not None:
            merged[-1] = replace(last, end=max(last.end, span.end))
        elif span.kind is not None:
            merged[-1] = replace(span, start=last.start, end=max(last.end, span.end))
    return merged
