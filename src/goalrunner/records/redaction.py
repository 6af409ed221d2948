"""Replacing secrets in everything that is written or shown to a judge: known values, known formats, the goal's patterns."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from goalrunner.core.field_types import secret_pattern
from goalrunner.records import secret_formats as formats
from goalrunner.records.secret_formats import TokenFormat

KIND = "extra"  # what a match of the goal's own patterns is counted as

LONGEST_LINE = 1 << 16
"""Characters of a line that patterns are applied to at once, because many patterns take quadratic time. No match lies
across two such pieces."""

_BLOCK = 1 << 20  # bytes of a stream that are searched at once, at least
_HASH = re.compile(
    "[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)  # or a UUID
_BY_CHANCE = 16  # characters; a hash contains no secret of this length by chance
_CODED = 4  # how many times longer control codes may make a secret in a stream


class Span(NamedTuple):
    """A part of a text. `kind` names the secret that it is; it is empty for an earlier replacement, which stays."""

    start: int
    end: int
    kind: str


_CHAT_WORDS = frozenset(
    """
    role content tool_calls tool_call_id function arguments name id type system user assistant tool text thinking
    reasoning_content thinking_blocks signature
    """.split()
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
        entries = tuple(extra)
        self._allow = frozenset(allow)
        self._allowed_tokens = {
            text.encode("utf-8", "surrogateescape") for text in self._allow
        }
        secrets = formats.secrets_among(environ, frozenset(names), entries, self._allow)
        self.names = tuple(sorted(secrets))
        """The variables whose values are replaced."""
        self._patterns = [
            pattern for pattern in map(secret_pattern, entries) if pattern is not None
        ]
        self._forms = formats.spellings(secrets, self._allow)
        self._formats: dict[bytes, list[TokenFormat]] = {}
        for rule in formats.FORMATS:
            for begin in rule.begins:
                self._formats.setdefault(begin, []).append(rule)
        kinds = dict.fromkeys(
            (*secrets, *(rule.name for rule in formats.FORMATS), KIND)
        )
        markers = [formats.marker_of(kind) for kind in kinds]
        self._markers = b"|".join(map(re.escape, markers))
        self._margin = _CODED * (
            max(map(len, (*self._forms, *markers))) + formats.LONGEST
        )
        """Bytes that a secret in a stream has at most."""
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def take_counts(self) -> dict[str, int]:
        """Return how many secrets were replaced since the last call, by kind."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        return dict(sorted(counts.items()))

    def text(self, text: str) -> str:
        return self.data(text.encode("utf-8", "surrogatepass")).decode(
            "utf-8", "surrogatepass"
        )

    def data(self, data: bytes) -> bytes:
        """Return bytes without secrets; valid UTF-8 stays valid."""
        return b"".join(self.chunks((data,)))

    def json(self, value: Any, keep: Collection[str] = _CHAT_WORDS) -> Any:
        """Return a JSON value without secrets in its strings and keys; the strings in `keep` stay.

        A string that is a hash stays, too, unless a long part of it is secret: a PIN of four digits occurs in one of a
        thousand hashes, and a record could not be read back without it.
        """
        match value:
            case str():
                return (
                    value if value in keep or self._is_hash(value) else self.text(value)
                )
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
        """Return whether a text is a hash, with no secret but those that are short enough to occur in it by chance."""
        return bool(_HASH.fullmatch(text)) and all(
            span.end - span.start < _BY_CHANCE for span in self._spans(text.encode())
        )

    def chunks(
        self, chunks: Iterable[bytes], *, is_cut: Callable[[], bool] = lambda: False
    ) -> Iterator[bytes]:
        """Yield a stream without secrets, also those that lie across two chunks. Hold a few megabytes at most.

        If `is_cut()` is true at its end, the last bytes, which may be a part of a secret, are left out.
        """
        size = max(_BLOCK, 2 * self._margin)
        data, waiting = b"", bytearray()
        for chunk in chunks:
            waiting += chunk
            while len(waiting) >= size:
                settled, data = self._settled(data + bytes(waiting[:size]))
                del waiting[:size]
                yield settled
        data += bytes(waiting)
        yield self._settled(data)[0] if is_cut() else self._replaced(data)[0]

    def _settled(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the part of `data` that no later byte can change, without secrets, and the rest."""
        data, spans = self._replaced(data, self._margin)
        limit = max(0, len(data) - self._margin)
        cut = data.rfind(b"\n", 0, limit) + 1 or limit
        cut = next((span.end for span in spans if span.start < cut < span.end), cut)
        return data[:cut], data[cut:]

    def _replaced(self, data: bytes, margin: int = 0) -> tuple[bytes, list[Span]]:
        """Replace secrets until there are none, because replacing one may reveal another; return replacements, too.

        Those that begin in the last `margin` bytes are left alone: what follows may belong to them.
        """
        while True:
            spans = [
                span for span in self._spans(data) if span.start < len(data) - margin
            ]
            if not any(span.kind for span in spans):
                return data, spans
            parts, place = [], 0
            for span in spans:
                parts += [
                    data[place : span.start],
                    formats.marker_of(span.kind)
                    if span.kind
                    else data[span.start : span.end],
                ]
                place = span.end
            data = b"".join((*parts, data[place:]))
            with self._lock:
                self._counts.update(span.kind for span in spans if span.kind)

    def _spans(self, data: bytes) -> list[Span]:
        """Return the secrets and earlier replacements in order, also secrets that control codes split."""
        if b"\x1b" not in data and data.count(b"\r") == data.count(
            b"\r\n"
        ):  # a known spelling of a line end
            return self._spans_in(data)
        # Where something was left out of the text that is searched, and how many bytes up to there.
        places: list[int] = []
        left_out = [0]
        for match in formats.CONTROL_SEQUENCE.finditer(data):
            places.append(match.start() - left_out[-1])
            left_out.append(left_out[-1] + len(match[0]))

        def raw(place: int) -> int:
            return place + left_out[bisect_right(places, place)]

        text = formats.CONTROL_SEQUENCE.sub(b"", data)
        found = [
            Span(raw(start), raw(end - 1) + 1, kind)
            for start, end, kind in self._spans_in(text, frozenset(places))
        ]
        # The text that a sequence carries, such as the address of a link, was left out.
        return _merged([*found, *self._spans_in(data)]) if b"\x1b]" in data else found

    def _spans_in(self, data: bytes, breaks: Collection[int] = ()) -> list[Span]:
        """Return the spans of a text. A word may begin at one of `breaks`."""
        known = list(self._known(data))
        found = _merged([*known, *self._tokens(data, known, breaks)])
        if not self._patterns:
            return found
        gaps = zip(
            [0, *(span.end for span in found)],
            [*(span.start for span in found), len(data)],
            strict=True,
        )
        return sorted(
            [
                *found,
                *(
                    match
                    for start, end in gaps
                    for match in self._matches(data, start, end)
                ),
            ]
        )

    def _known(self, data: bytes) -> Iterator[Span]:
        """Yield values and replacements. A plain search comes first: it is a hundred times faster than a pattern of all forms."""
        needles = [form for form in self._forms if form in data]
        if not needles and formats.MARKER.encode() not in data:
            return
        values = b"|".join(map(re.escape, needles)) or b"(?!)"
        for match in re.compile(b"(?:%s)|(%s)" % (self._markers, values)).finditer(
            data
        ):
            yield Span(
                *match.span(), self._forms[match[1]] if match[1] is not None else ""
            )

    def _tokens(
        self, data: bytes, known: Sequence[Span], breaks: Collection[int]
    ) -> list[Span]:
        """Return the tokens between the known spans, in no order, without those that are allowed."""
        starts = [*(span.start for span in known), len(data)]
        found: list[Span] = []
        for literal, rules in self._formats.items():
            place = data.find(literal)
            while place >= 0:
                after = bisect_right(starts, place, hi=len(known))
                is_free = not after or known[after - 1].end <= place
                begins = place in breaks or not formats.WORD_BEFORE.match(data, place)
                for rule in rules if is_free else ():
                    token = (
                        rule.find(data, place, starts[after])
                        if begins or rule.inside_words
                        else None
                    )
                    if token and data[slice(*token)] not in self._allowed_tokens:
                        found.append(Span(*token, rule.name))
                place = data.find(literal, place + 1)
        return found

    def _matches(self, data: bytes, place: int, end: int) -> Iterator[Span]:
        """Yield the matches of the patterns, line by line."""
        for line in data[place:end].split(b"\n"):
            text = line.removesuffix(b"\r").decode("utf-8", "surrogateescape")
            for piece in range(0, len(text), LONGEST_LINE):
                for first, last in self._cut(text[piece : piece + LONGEST_LINE]):
                    start, stop = (
                        place
                        + len(text[: piece + at].encode("utf-8", "surrogateescape"))
                        for at in (first, last)
                    )
                    yield Span(start, stop, KIND)
            place += len(line) + 1

    def _cut(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield a match, and those in the text on its left and right, each as if it were the whole line."""
        rest = [(0, text)]
        while rest:
            place, part = rest.pop()
            matches = (
                match for pattern in self._patterns for match in pattern.finditer(part)
            )
            if match := next(
                (
                    match
                    for match in matches
                    if match[0] and match[0] not in self._allow
                ),
                None,
            ):
                yield place + match.start(), place + match.end()
                rest += [
                    (place, part[: match.start()]),
                    (place + match.end(), part[match.end() :]),
                ]


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order; of those that overlap, one that covers all, of the kind of the first that is a secret."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(span)
        else:
            merged[-1] = Span(
                last.start, max(last.end, span.end), last.kind or span.kind
            )
    return merged
