"""Replacing secrets in everything that is written or shown to a judge.

Secrets are known values, tokens of known formats, and matches of the goal's patterns.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from goalrunner.core.field_types import secret_pattern
from goalrunner.records.markers import MARKER, marker_of
from goalrunner.records.secret_formats import (
    FORMATS,
    LONGEST,
    WORD_BEFORE,
    TokenFormat,
)
from goalrunner.records.secret_values import (
    CONTROL_SEQUENCE,
    secrets_among,
    spellings,
)

KIND = "extra"
"""What a match of the goal's own patterns is counted as."""

LONGEST_LINE = 1 << 16
"""Characters of a line that patterns are applied to at once.

Many patterns take quadratic time. No match lies across two such pieces.
"""

# Bytes of a stream that are searched at once, at least.
_BLOCK = 1 << 20
# Or a UUID.
_HASH = re.compile(
    "[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
# Characters; a hash contains no secret of this length by chance.
_BY_CHANCE = 16
# How many times longer control codes may make a secret in a stream.
_CODED = 4


class Span(NamedTuple):
    """A part of a text.

    `kind` names the secret that it is; it is empty for an earlier replacement, which
    stays.
    """

    start: int
    end: int
    kind: str


# Keys and fixed values of chat messages, which are never replaced: no message could be
# read back without them.
_CHAT_WORDS = frozenset(
    """
    role content tool_calls tool_call_id function arguments name id type system user
    assistant tool text thinking reasoning_content thinking_blocks signature
    """.split()
)


class Redactor:
    """Replaces secrets by `[redacted:KIND]`; replacing twice changes nothing.

    `environ` is searched by name; the variables in `names` are secrets whatever they
    are called. `extra` are a goal's `$NAME` and `/pattern/`, `allow` texts that are
    never replaced. Raise UsageError if a `$NAME` is not set, and ValueError for an
    invalid pattern.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        names: Iterable[str] = (),
        extra: Iterable[str] = (),
        allow: Iterable[str] = (),
    ) -> None:
        entries = tuple(extra)
        self._allow = frozenset(allow)
        self._allowed_tokens = {
            text.encode("utf-8", "surrogateescape") for text in self._allow
        }
        secrets = secrets_among(environ, frozenset(names), entries, self._allow)
        self.names = tuple(sorted(secrets))
        """The variables whose values are replaced."""
        patterns = map(secret_pattern, entries)
        self._patterns = [pattern for pattern in patterns if pattern is not None]
        self._variables = spellings(secrets, self._allow)
        self._formats: dict[bytes, list[TokenFormat]] = {}
        for rule in FORMATS:
            for literal in rule.begins:
                self._formats.setdefault(literal, []).append(rule)
        kinds = {*secrets, *(rule.name for rule in FORMATS), KIND}
        markers = sorted(map(marker_of, kinds))
        self._markers = b"|".join(map(re.escape, markers))
        longest_value = max(map(len, (*self._variables, *markers)))
        # Bytes that a secret in a stream has at most.
        self._margin = _CODED * (longest_value + LONGEST)
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def take_counts(self) -> dict[str, int]:
        """Return how many secrets were replaced since the last call, by kind."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        return dict(sorted(counts.items()))

    def text(self, text: str) -> str:
        redacted = self.data(text.encode("utf-8", "surrogatepass"))
        return redacted.decode("utf-8", "surrogatepass")

    def data(self, data: bytes) -> bytes:
        """Return bytes without secrets; valid UTF-8 stays valid."""
        return b"".join(self.chunks((data,)))

    def json(self, value: Any, keep: Collection[str] = _CHAT_WORDS) -> Any:
        """Return a JSON value without secrets in its strings and keys.

        The strings in `keep` stay. A string that is a hash stays, too, unless a long
        part of it is secret: a PIN of four digits occurs in one of a thousand hashes,
        and a record could not be read back without it.
        """
        match value:
            case str():
                is_needed = value in keep or self._is_hash(value)
                return value if is_needed else self.text(value)
            case Mapping():
                return {
                    self.json(key, keep): self.json(item, keep)
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self.json(item, keep) for item in value]
            case _:
                return value

    def _is_hash(self, text: str) -> bool:
        """Return whether a text is a hash.

        Secrets in it must be short enough to occur in a hash by chance.
        """
        if not _HASH.fullmatch(text):
            return False
        spans = self._spans(text.encode())
        return all(span.end - span.start < _BY_CHANCE for span in spans)

    def chunks(
        self, chunks: Iterable[bytes], *, is_cut: Callable[[], bool] = lambda: False
    ) -> Iterator[bytes]:
        """Yield a stream without secrets, also those that lie across two chunks.

        Hold a few megabytes at most. If `is_cut()` is true at its end, the last bytes,
        which may be a part of a secret, are left out.
        """
        size = max(_BLOCK, 2 * self._margin)
        unsettled = b""
        waiting = bytearray()
        for chunk in chunks:
            waiting += chunk
            while len(waiting) >= size:
                settled, unsettled = self._settled(unsettled + bytes(waiting[:size]))
                del waiting[:size]
                yield settled
        last = unsettled + bytes(waiting)
        if is_cut():
            yield self._settled(last)[0]
        else:
            yield self._replaced(last)[0]

    def _settled(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the part of `data` that no later byte can change, and the other part.

        The first part is without secrets.
        """
        data, spans = self._replaced(data, self._margin)
        limit = max(0, len(data) - self._margin)
        # At the end of a line, because the goal's patterns are applied to whole lines.
        cut = data.rfind(b"\n", 0, limit) + 1 or limit
        for span in spans:
            if span.start < cut < span.end:
                cut = span.end
                break
        return data[:cut], data[cut:]

    def _replaced(self, data: bytes, margin: int = 0) -> tuple[bytes, list[Span]]:
        """Return data without secrets, and the spans of the replacements.

        Secrets that begin in the last `margin` bytes stay: what follows may belong to
        them.
        """
        # Until there are none, because replacing one may reveal another.
        while True:
            limit = len(data) - margin
            spans = [span for span in self._spans(data) if span.start < limit]
            secrets = [span for span in spans if span.kind]
            if not secrets:
                return data, spans
            parts = []
            place = 0
            for secret in secrets:
                parts += [data[place : secret.start], marker_of(secret.kind)]
                place = secret.end
            data = b"".join((*parts, data[place:]))
            with self._lock:
                self._counts.update(secret.kind for secret in secrets)

    def _spans(self, data: bytes) -> list[Span]:
        """Return the secrets and earlier replacements in order.

        They include secrets that control codes split.
        """
        # A carriage return before a line feed is a usual spelling of a line end.
        has_controls = b"\x1b" in data or data.count(b"\r") != data.count(b"\r\n")
        if not has_controls:
            return self._spans_in(data)
        text, removals = _without_controls(data)
        spans = []
        for start, end, kind in self._spans_in(text, frozenset(removals.places)):
            first, last = removals.original(start), removals.original(end - 1)
            spans.append(Span(first, last + 1, kind))
        # The text that a sequence carries, such as the address of a link, was left out.
        if b"\x1b]" in data:
            return _merged([*spans, *self._spans_in(data)])
        return spans

    def _spans_in(self, data: bytes, breaks: Collection[int] = ()) -> list[Span]:
        """Return the spans of a text. A word may begin at one of `breaks`."""
        values = list(self._values(data))
        spans = _merged([*values, *self._tokens(data, values, breaks)])
        if not self._patterns:
            return spans
        # The goal's patterns are applied to what lies between the other spans.
        matches: list[Span] = []
        place = 0
        for span in spans:
            matches += self._matches(data, place, span.start)
            place = span.end
        matches += self._matches(data, place, len(data))
        return sorted([*spans, *matches])

    def _values(self, data: bytes) -> Iterator[Span]:
        """Yield known values and earlier replacements."""
        # A plain search comes first: it is a hundred times faster than a pattern of all
        # forms.
        forms = [form for form in self._variables if form in data]
        if not forms and MARKER.encode() not in data:
            return
        # Without forms, a pattern that never matches.
        pattern = b"|".join(map(re.escape, forms)) or b"(?!)"
        either = re.compile(b"(?:%s)|(%s)" % (self._markers, pattern))
        for match in either.finditer(data):
            form = match[1]
            kind = "" if form is None else self._variables[form]
            yield Span(match.start(), match.end(), kind)

    def _tokens(
        self, data: bytes, values: Sequence[Span], breaks: Collection[int]
    ) -> list[Span]:
        """Return the tokens between the spans of values, in no order.

        Those that are allowed are left out.
        """
        starts = [*(span.start for span in values), len(data)]
        tokens: list[Span] = []
        for literal, rules in self._formats.items():
            place = data.find(literal)
            while place >= 0:
                following = bisect_right(starts, place, hi=len(values))
                is_free = not following or values[following - 1].end <= place
                begins_word = place in breaks or not WORD_BEFORE.match(data, place)
                for rule in rules if is_free else ():
                    if not begins_word and not rule.inside_words:
                        continue
                    token = rule.find(data, place, starts[following])
                    if token and data[slice(*token)] not in self._allowed_tokens:
                        tokens.append(Span(*token, rule.name))
                place = data.find(literal, place + 1)
        return tokens

    def _matches(self, data: bytes, place: int, end: int) -> Iterator[Span]:
        """Yield the matches of the patterns, line by line."""
        for line in data[place:end].split(b"\n"):
            text = line.removesuffix(b"\r").decode("utf-8", "surrogateescape")
            for piece_start in range(0, len(text), LONGEST_LINE):
                piece = text[piece_start : piece_start + LONGEST_LINE]
                for first, last in self._matches_in_piece(piece):
                    start = place + _byte_length(text[: piece_start + first])
                    stop = place + _byte_length(text[: piece_start + last])
                    yield Span(start, stop, KIND)
            place += len(line) + 1

    def _matches_in_piece(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the places of a match, and of those in the text beside it.

        The text on its left and on its right is searched as if it were the whole line.
        """
        unsearched = [(0, text)]
        while unsearched:
            place, part = unsearched.pop()
            match = self._first_match(part)
            if match is not None:
                start, end = match.span()
                yield place + start, place + end
                unsearched.append((place, part[:start]))
                unsearched.append((place + end, part[end:]))

    def _first_match(self, text: str) -> re.Match[str] | None:
        """Return the first match that is neither empty nor allowed."""
        for pattern in self._patterns:
            for match in pattern.finditer(text):
                if match[0] and match[0] not in self._allow:
                    return match
        return None


class _Removals(NamedTuple):
    """Where something was left out of a text, and how many bytes up to there."""

    places: list[int]
    """Offsets in the text without the removals."""
    totals: list[int]
    """The total at each place, after a 0."""

    def original(self, place: int) -> int:
        """Return the offset in the whole text."""
        return place + self.totals[bisect_right(self.places, place)]


def _without_controls(data: bytes) -> tuple[bytes, _Removals]:
    """Return data without control sequences, and where they were."""
    places: list[int] = []
    totals = [0]
    for match in CONTROL_SEQUENCE.finditer(data):
        places.append(match.start() - totals[-1])
        totals.append(totals[-1] + len(match[0]))
    return CONTROL_SEQUENCE.sub(b"", data), _Removals(places, totals)


def _byte_length(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, without overlaps.

    Of those that overlap, there is one that covers all, of the kind of the first that
    is a secret.
    """
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(span)
        else:
            end = max(last.end, span.end)
            merged[-1] = Span(last.start, end, last.kind or span.kind)
    return merged
