"""Secrets out, before anything is written. Owns the order: known values, known formats, the goal's own patterns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import Any

from goalrunner.redaction.extra import forced_values, pattern_of
from goalrunner.redaction.marker import marker_of
from goalrunner.redaction.passages import Passages
from goalrunner.redaction.patterns import KIND, PatternSearch
from goalrunner.redaction.tokens import TokenSearch
from goalrunner.redaction.values import roots_of, secrets_among, spellings

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
        patterns = [pattern for pattern in map(pattern_of, entries) if pattern is not None]
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
