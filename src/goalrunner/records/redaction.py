"""Replacing secrets in everything that is written or shown to a judge: known values, known formats, the goal's patterns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from goalrunner.core.errors import UsageError
from goalrunner.core.field_types import secret_pattern, secret_variable
from goalrunner.records.secret_values import VisibleText, roots_of, secrets_among, spellings, without_codes
from goalrunner.records.token_formats import marker_of
from goalrunner.records.token_search import Passage, Passages, TokenSearch


def forced_values(extra: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values that `$NAME` stands for, by name. Raise UsageError if a variable is not set."""
    forced: dict[str, str] = {}
    for name in filter(None, map(secret_variable, extra)):
        value = environ.get(name, "").strip()
        if not value:
            raise UsageError(
                f"[redact] extra names ${name}, which is not set, so its value could not be redacted",
                f"export {name}=..., or remove it from [redact] extra",
            )
        forced[name] = value
    return forced


KIND = "extra"
"""What a match of the goal's own patterns is counted as."""

LONGEST_LINE = 1 << 16
"""Bytes of a line that are searched as one. A longer line is searched in pieces, because many patterns take quadratic time;
no match lies across two pieces."""

_CODING = ("utf-8", "surrogateescape")


class PatternSearch:
    """Finds the matches of patterns; `allow` holds texts that stay."""

    def __init__(self, patterns: Sequence[re.Pattern[str]], tokens: TokenSearch, allow: Collection[str] = ()) -> None:
        self._patterns = tuple(patterns)
        self._tokens = tokens
        self._allow = frozenset(allow)

    def split(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """Yield the same passages, text cut further at the matches of patterns. Hold one line."""
        if not self._patterns:
            yield from passages
            return
        begun = b""
        for passage in passages:
            if passage.kind or passage.closed:
                yield from self._lines(begun)
                yield passage
                begun = b""
                continue
            begun += passage.text
            if len(begun) >= LONGEST_LINE:
                whole, end, line = begun.rpartition(b"\n")
                yield from self._lines(whole + end)
                done, begun = _pieces(line)
                for piece in done:
                    yield from self._lines(piece)
        yield from self._lines(begun)

    def _lines(self, text: bytes) -> Iterator[Passage]:
        quiet: list[bytes] = []
        for number, line in enumerate(text.split(b"\n")):
            if number:
                quiet.append(b"\n")
            done, rest = _pieces(line)
            for piece in (*done, rest):
                if self._first(piece) is None:
                    quiet.append(piece)
                    continue
                yield Passage(b"".join(quiet))
                quiet = []
                yield from self._cut(piece)
        yield Passage(b"".join(quiet))

    def _cut(self, text: bytes) -> Iterator[Passage]:
        """Cut at a match, and the text to the left and right of it again, until there is none."""
        while span := self._first(text) or self._token(text):
            start, end, kind = span
            yield from self._cut(text[:start])
            yield Passage(text[start:end], kind)
            text = text[end:]
        yield Passage(text)

    def _first(self, data: bytes) -> tuple[int, int, str] | None:
        """Return the first match in the line, or else in its visible text."""
        found = self._match(data)
        if found is None and len(without_codes(data)) != len(data):
            view = VisibleText(data)
            hidden = self._match(view.data)
            found = view.raw_span(*hidden) if hidden else None
        return (*found, KIND) if found else None

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
    """Return the pieces of LONGEST_LINE bytes that a line has, cut between characters, and the rest of it."""
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


_CHAT_WORDS = frozenset(
    """
    role content tool_calls tool_call_id function arguments name id type system user assistant tool text thinking
    reasoning_content thinking_blocks signature
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Keys and fixed values of chat messages, which are never replaced: no message could be read back without them."""


class Redactor:
    """Replaces secrets by `[redacted:KIND]`; replacing twice changes nothing.

    `environ` is searched by name; the variables in `names` are secrets whatever they are called. `extra` are a goal's
    `$NAME` and `/pattern/`, `allow` texts that are never replaced. Raise UsageError if a `$NAME` is not set, and
    ValueError for an invalid pattern.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        names: Iterable[str] = (),
        extra: Iterable[str] = (),
        allow: Iterable[str] = (),
    ) -> None:
        entries, allowed = tuple(extra), frozenset(allow)
        secrets = secrets_among(environ, frozenset(names), allowed) | forced_values(entries, environ)
        tokens = TokenSearch([text.encode("utf-8", "surrogateescape") for text in allowed])
        patterns = [pattern for pattern in map(secret_pattern, entries) if pattern is not None]
        self._names = tuple(sorted(secrets))
        self._forms = spellings(secrets)
        self._roots = roots_of(self._forms)
        self._tokens = tokens
        self._patterns = PatternSearch(patterns, tokens, allowed)
        markers = [marker_of(kind) for kind in (*self._names, *tokens.kinds, KIND)]
        self._markers = b"|".join(map(re.escape, markers))
        self._longest = max(map(len, (*self._forms, *markers)))
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The variables whose values are replaced."""
        return self._names

    def take_counts(self) -> dict[str, int]:
        """Return how many secrets were replaced since the last call, by kind."""
        with self._lock:
            counts = dict(sorted(self._counts.items()))
            self._counts.clear()
        return counts

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def data(self, data: bytes) -> bytes:
        """Return bytes without secrets; valid UTF-8 stays valid."""
        return b"".join(self.chunks((data,)))

    def json(self, value: Any) -> Any:
        """Return a JSON value without secrets in its strings and keys; the words of chat messages stay."""
        match value:
            case str():
                return value if value in _CHAT_WORDS else self.text(value)
            case Mapping():
                return {self.json(key): self.json(item) for key, item in value.items()}
            case list() | tuple():
                return [self.json(item) for item in value]
            case _:
                return value

    def chunks(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a stream without secrets, also those that lie across two chunks. Memory is bounded."""
        passages = Passages(self._forms, self._roots, self._markers, self._longest, self._tokens).cut(chunks)
        for passage in self._patterns.split(passages):
            if passage.kind is None:
                yield passage.text
            else:
                with self._lock:
                    self._counts[passage.kind] += 1
                yield marker_of(passage.kind)
