"""A stream cut into what stays and what is replaced, the same however it comes in. Owns borders; knows no secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from goalrunner.redaction.marker import MARKER
from goalrunner.redaction.rules import LONGEST
from goalrunner.redaction.tokens import CONTEXT, Span, TokenSearch

_STEP = 1 << 16
"""Bytes that are gathered before a stream is searched on."""


@dataclass(frozen=True)
class Passage:
    """A piece of a stream. `kind` names the secret that stands there; None: it is text.

    `closed` is text that is not to be looked into: a replacement of before.
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
        """The passages of one stream. Holds one chunk and some 200 KB."""
        waiting: list[bytes] = []
        size = 0
        for chunk in chunks:
            waiting.append(chunk)
            size += len(chunk)
            if size >= self._hold + _STEP:
                yield from self._settle(b"".join(waiting), last=False)
                waiting, size = [], 0
        yield from self._settle(b"".join(waiting), last=True)

    def _settle(self, more: bytes, *, last: bool) -> Iterator[Passage]:
        """Give away what no later byte can change; keep the rest, and a little before it."""
        data = self._buffer + more
        limit = len(data) if last else max(self._begin, len(data) - self._hold)
        place = self._begin
        for span in self._spans(data, limit):
            if span.start > place:
                yield Passage(data[place : span.start])
            yield Passage(data[span.start : span.end], span.kind, closed=span.closed)
            place = span.end
            if span.kind or span.closed:
                self._edge = span.end
        end = max(limit, place)
        if end > place:
            yield Passage(data[place:end])
        kept = max(0, end - CONTEXT)
        self._buffer, self._begin, self._edge = data[kept:], end - kept, self._edge - kept

    def _spans(self, data: bytes, limit: int) -> Iterator[Span]:
        """Values and replacements first, then tokens between them, as far as they begin before `limit`."""
        candidates = self._tokens.candidates(data, self._begin, limit)
        start, edge = self._begin, self._edge
        for span in self._literals(data):
            yield from self._tokens.spans(data, candidates, start, span.start, edge)
            if span.start >= limit:
                return
            yield span
            start = edge = span.end
        yield from self._tokens.spans(data, candidates, start, len(data), edge)

    def _literals(self, data: bytes) -> Iterator[Span]:
        """A plain search first: it is a hundred times faster than a pattern of all forms."""
        here = [root for root in self._roots if root in data]
        needles = [needle for needle in self._forms if needle in data] if here else []
        if not needles and MARKER.encode() not in data:
            return
        alternatives = b"|".join(map(re.escape, needles)) or b"(?!)"
        for match in re.compile(b"(?:%s)|(%s)" % (self._markers, alternatives)).finditer(data, self._begin):
            needle = match[1]
            yield Span(*match.span(), None if needle is None else self._forms[needle], closed=needle is None)
