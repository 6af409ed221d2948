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
                f"[redact] extra names ${name}, which is not set, so its value could not be kept out of the run",
                f"export {name}=..., or take it out of [redact] extra",
            )
        forced[name] = value
    return forced


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


_CHAT_WORDS = frozenset(
    """
    role content tool_calls tool_call_id function arguments name id type system user assistant tool text thinking
    reasoning_content thinking_blocks signature
    """.split()  # noqa: SIM905 - a table, to be read
)
"""Keys and fixed values of chat messages: without them no message can be read back, whatever somebody calls a secret."""


class Redactor:
    """Replaces secrets by `[redacted:KIND]`; replacing twice changes nothing.

    `environ` is searched by name; the variables in `names` are secrets whatever they are called. `extra` are a goal's
    `$NAME` and `/pattern/`, `allow` texts that are never replaced. Raises UsageError where a `$NAME` is not set, and
    ValueError for a pattern that is none.
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
        """How many secrets were replaced since this was last asked, by kind."""
        with self._lock:
            counts = dict(sorted(self._counts.items()))
            self._counts.clear()
        return counts

    def text(self, text: str) -> str:
        """`text` without secrets."""
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def data(self, data: bytes) -> bytes:
        """`data` without secrets. What was valid UTF-8 still is."""
        return b"".join(self.chunks((data,)))

    def json(self, value: Any) -> Any:
        """A JSON value, every string and key in it without secrets; the words of chat messages stay."""
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
        """A stream without secrets, those that lie across two chunks too. Memory is bounded."""
        passages = Passages(self._forms, self._roots, self._markers, self._longest, self._tokens).cut(chunks)
        for passage in self._patterns.sift(passages):
            if passage.kind is None:
                yield passage.text
            else:
                with self._lock:
                    self._counts[passage.kind] += 1
                yield marker_of(passage.kind)
