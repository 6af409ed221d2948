"""The reading of a JSON object in the text of a model's answer.

Harmless departures from JSON are read: comments, trailing commas, raw line breaks in
strings, `True`, `False` and `None`. Nothing is completed or guessed: an object that is
cut, a key that occurs twice and a second, different object are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LIMIT = 400_000
"""Characters of an answer that are read; a longer one is unreadable."""

_TRIES = 1_000
"""Opening braces at which an object is looked for."""
_LENIENT_LIMIT = 5 * LIMIT
"""Characters that the lenient reader reads in one answer.

It begins again at each brace, so it may read the same characters many times.
"""
_THINKING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?: (?P<comment> (?:// | \#)[^\n]{0,2000}(?![^\n]) | /\*.{0,2000}?\*/ )
    | (?P<string> "[^"\\]*(?:\\.[^"\\]*)*" )
    | (?P<open> [{\[] ) | (?P<close> [}\]] ) | (?P<between> [,:] )
    | (?P<word> [\w.+-]+ ) )""",
    re.VERBOSE | re.DOTALL,
)
_KEY = re.compile(r"[\"']\s*:")
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


class UnreadableReplyError(Exception):
    """A model's answer cannot be read, or lacks a criterion.

    The message is one sentence with the reason.
    """


@dataclass(frozen=True)
class _Read:
    """An object that was read, and the position after it."""

    value: dict[str, Any]
    end: int


def only_object(
    text: str,
    noun: str,
    keys: re.Pattern[str],
    is_meant: Callable[[dict[str, Any]], bool],
) -> Any:
    """Return the only outermost object that `is_meant` accepts.

    Repetitions and a leading `<think>` block are ignored. Raise UnreadableReplyError if
    there is none, if there is a different second one or a piece of one (a match of
    `keys`), and for a repeated key or NaN, which Python's parser accepts.
    """
    objects, text_between = _objects(text)
    meant = [value for value in objects if is_meant(value)]
    if not meant:
        raise UnreadableReplyError(
            f"The answer holds no whole and valid JSON object with {noun}."
        )
    # A repeated object is harmless: some models write it twice.
    has_another = any(value != meant[0] for value in meant)
    if has_another or keys.search(text_between):
        raise UnreadableReplyError(
            f"Beside {noun} the answer holds another one, or pieces of it."
        )
    return meant[0]


def boolean_of(value: object) -> object:
    """Return a boolean for the texts "true" and "false" in any capitals.

    Another value is returned as it is.
    """
    words = value.strip().lower() if isinstance(value, str) else ""
    return {"true": True, "false": False}.get(words, value)


def _objects(text: str) -> tuple[list[dict[str, Any]], str]:
    """Return the outermost objects of an answer, and the text between them."""
    if len(text) > LIMIT:
        raise UnreadableReplyError(f"The answer is longer than {LIMIT:,} characters.")
    thinking = _THINKING.match(text)
    position = thinking.end() if thinking else 0
    lenient = _LenientReader(text)
    objects: list[dict[str, Any]] = []
    between: list[str] = []
    start = text.find("{", position)
    # Each brace that opens no object costs a parse.
    for _ in range(_TRIES):
        if start < 0:
            return objects, "\n".join([*between, text[position:]])
        read = _strict_object(text, start) or lenient.object_at(start)
        if read is None:
            start = text.find("{", start + 1)
            continue
        objects.append(read.value)
        between.append(text[position:start])
        position = read.end
        start = text.find("{", position)
    raise UnreadableReplyError(
        "The answer holds too many braces to be one JSON object."
    )


def _strict_object(text: str, start: int) -> _Read | None:
    """Return the JSON object that begins at `start`; None if there is none."""
    try:
        value, end = _DECODER.raw_decode(text, start)
        # Fails for a lone surrogate, which no file can hold.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return _Read(value, end)


class _LenientReader:
    """Reads objects that are not quite JSON, with bounded work for the whole answer."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._remaining = _LENIENT_LIMIT

    def object_at(self, start: int) -> _Read | None:
        """Return the object that begins at `start`; None if there is none."""
        tokens: list[str] = []
        position, depth = start, 0
        while self._remaining > 0 and (token := _TOKEN.match(self._text, position)):
            self._remaining -= token.end() - position
            position = token.end()
            kind = token.lastgroup or ""
            words = token[kind]
            if kind == "comment":
                if _KEY.search(words):
                    # A part of an answer, which may be meant to count or not to count.
                    return None
                continue
            if kind == "close" and tokens[-1] == ",":
                tokens.pop()
            tokens.append(_PYTHON_WORDS.get(words, words))
            depth += {"open": 1, "close": -1}.get(kind, 0)
            if depth == 0:
                value = _as_object(" ".join(tokens))
                # A brace in a string may have closed the object too early.
                if value is None or self._is_closed_again(position):
                    return None
                return _Read(value, position)
        return None

    def _is_closed_again(self, end: int) -> bool:
        """Return whether a closing brace follows the object.

        Then it may have ended too early.
        """
        text_after = self._text[end:].partition("{")[0]
        return "}" in text_after


def _as_object(text: str) -> dict[str, Any] | None:
    try:
        value: dict[str, Any] = _DECODER_WITH_RAW_BREAKS.decode(text)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise UnreadableReplyError("The answer's JSON has a key twice in one object.")
    return value


def _constant(name: str) -> float:
    raise UnreadableReplyError(f"The answer's JSON holds {name}, which is no JSON.")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)
_DECODER_WITH_RAW_BREAKS = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_constant=_constant, strict=False
)
