"""The patterns of a goal file, applied to lines. Owns what a line is; the tokens of known formats were found before.

A pattern sees one line at a time, without its end, and never a replacement: so its matches do not depend on how a
stream was cut. What is left of a line is searched until nothing matches any more, so redacting twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from goalrunner.redaction.passages import Passage
from goalrunner.redaction.tokens import TokenSearch
from goalrunner.redaction.visible import VisibleText, without_codes

KIND = "extra"
"""What a match of the goal's own patterns is counted as."""

LONGEST_LINE = 1 << 16
"""Bytes of a line that are searched as one; a longer line is searched in such pieces, and no match lies across two.

Many patterns take time by the square of what they search: so pieces are short.
"""

_CODING = ("utf-8", "surrogateescape")


class PatternSearch:
    """Finds what patterns match; `allow` holds texts that stay."""

    def __init__(self, patterns: Sequence[re.Pattern[str]], tokens: TokenSearch, allow: Collection[str] = ()) -> None:
        self._patterns = tuple(patterns)
        self._tokens = tokens
        self._allow = frozenset(allow)

    def sift(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """The same passages, text cut further where a pattern matches. Holds one line."""
        if not self._patterns:
            yield from passages
            return
        begun: list[bytes] = []
        for passage in passages:
            if passage.kind or passage.closed:
                yield from self._line(b"".join(begun))
                yield passage
                begun = []
                continue
            whole, end, rest = passage.text.rpartition(b"\n")
            if end:
                yield from self._lines(b"".join((*begun, whole)))
                begun = []
            begun.append(rest)
            if sum(map(len, begun)) >= LONGEST_LINE:
                done, rest = _pieces(b"".join(begun))
                for piece in done:
                    yield from self._line(piece)
                begun = [rest]
        yield from self._line(b"".join(begun))

    def _lines(self, text: bytes) -> Iterator[Passage]:
        """Whole lines, less the end of the last one; those in which nothing matches stay together."""
        quiet: list[bytes] = []
        for line, visible in zip(text.split(b"\n"), without_codes(text).split(b"\n"), strict=True):
            if len(line) < LONGEST_LINE and self._match(line) is None and not self._hidden(line, visible):
                quiet += line, b"\n"
                continue
            if quiet:
                yield Passage(b"".join(quiet))
            yield from self._line(line)
            quiet = [b"\n"]
        yield Passage(b"".join(quiet))

    def _line(self, line: bytes) -> Iterator[Passage]:
        done, rest = _pieces(line)
        for piece in (*done, rest):
            if self._first(piece) is None:
                if piece:
                    yield Passage(piece)
            else:
                yield from self._settled(piece)

    def _settled(self, text: bytes) -> Iterator[Passage]:
        """Cut at a match, and what is left and right of it again, until there is none."""
        waiting: list[Passage] = [Passage(text)]
        while waiting:
            passage = waiting.pop()
            span = None if passage.kind else self._first(passage.text) or self._token(passage.text)
            if span is None:
                if passage.text:
                    yield passage
                continue
            start, end, kind = span
            rest = passage.text
            waiting += Passage(rest[end:]), Passage(rest[start:end], kind), Passage(rest[:start])

    def _first(self, data: bytes) -> tuple[int, int, str] | None:
        """Return the first match in the line, or else in its visible text."""
        found = self._match(data)
        if found is None and self._hidden(data, without_codes(data)):
            view = VisibleText(data)
            found = self._match(view.data)
            found = view.raw_span(*found) if found else None
        return (*found, KIND) if found else None

    def _hidden(self, line: bytes, visible: bytes) -> bool:
        """Return whether something matches in the visible text of a line."""
        return len(visible) != len(line) and self._match(visible) is not None

    def _match(self, data: bytes) -> tuple[int, int] | None:
        text = data.decode(*_CODING)
        for pattern in self._patterns:
            for match in pattern.finditer(text):
                if match[0] and match[0] not in self._allow:
                    start = len(text[: match.start()].encode(*_CODING))
                    return start, start + len(match[0].encode(*_CODING))
        return None

    def _token(self, data: bytes) -> tuple[int, int, str] | None:
        view = VisibleText(data)
        candidates = self._tokens.candidates(view.data, 0, len(view.data))
        for span in self._tokens.spans(view.data, candidates, 0, len(view.data), 0, view):
            if span.kind is not None:
                return *view.raw_span(span.start, span.end), span.kind
        return None


def _pieces(line: bytes) -> tuple[list[bytes], bytes]:
    """A line in pieces of at most LONGEST_LINE, cut between characters, and what is left of it."""
    done: list[bytes] = []
    place = 0
    while len(line) - place >= LONGEST_LINE:
        end = place + LONGEST_LINE
        while end > place + LONGEST_LINE - 4 and end < len(line) and line[end] & 0xC0 == 0x80:
            end -= 1
        if end == len(line) and place == 0:
            break
        done.append(line[place:end])
        place = end
    return done, line[place:]
