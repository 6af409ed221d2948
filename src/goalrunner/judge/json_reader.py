"""The reading of a JSON object in the text of a model's answer.

Harmless departures from JSON are read: comments, trailing commas, raw line breaks in strings, `True`, `False` and `None`.
Nothing is completed or guessed: an object that is cut, a key that occurs twice and a second, different object are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

LIMIT = 400_000
"""Characters of an answer that are read; a longer one is unreadable."""

_TRIES = 1_000
_LENIENTLY = 5 * LIMIT
"""Characters that are read although they are not JSON, those that are read again included."""
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
    """A model's answer cannot be read, or lacks a criterion. The message is one sentence with the reason."""


def only_object(
    text: str,
    noun: str,
    keys: re.Pattern[str],
    is_meant: Callable[[dict[str, Any]], bool],
) -> Any:
    """Return the only outermost object that `is_meant` accepts; repetitions and a leading `<think>` block are ignored.

    Raise UnreadableReplyError if there is none, if there is a different second one or a piece of one (a match of
    `keys`), and for a repeated key or NaN, which Python's parser accepts.
    """
    objects, rest = _objects(text)
    meant = [value for value in objects if is_meant(value)]
    if not meant:
        raise UnreadableReplyError(
            f"The answer holds no whole and valid JSON object with {noun}."
        )
    if any(value != meant[0] for value in meant) or keys.search(rest):
        raise UnreadableReplyError(
            f"Beside {noun} the answer holds another one, or pieces of it."
        )
    return meant[0]


def boolean_of(value: object) -> object:
    """Return a boolean for the texts "true" and "false" in any capitals, and another value as it is."""
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
    for _ in range(_TRIES):
        if start < 0:
            return objects, "\n".join([*between, text[position:]])
        read = _strict_object(text, start) or lenient.object_at(start)
        if read is None:
            start = text.find("{", start + 1)
            continue
        value, end = read
        objects.append(value)
        between.append(text[position:start])
        position, start = end, text.find("{", end)
    raise UnreadableReplyError(
        "The answer holds too many braces to be one JSON object."
    )


def _strict_object(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    """Return the JSON object that begins at `start`, and its end; None if there is none."""
    try:
        value, end = _DECODER.raw_decode(text, start)
        json.dumps(value, ensure_ascii=False).encode()  # fails for a lone surrogate
    except (ValueError, RecursionError):
        return None
    return value, end


class _LenientReader:
    """Reads objects that are not quite JSON, with bounded work for the whole answer."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._left = _LENIENTLY

    def object_at(self, start: int) -> tuple[dict[str, Any], int] | None:
        """Return the object that begins at `start`, and its end; None if there is none."""
        tokens: list[str] = []
        position, depth = start, 0
        while self._left > 0 and (token := _TOKEN.match(self._text, position)):
            self._left -= token.end() - position
            position = token.end()
            kind = token.lastgroup or ""
            words = token[kind]
            depth += {"open": 1, "close": -1}.get(kind, 0)
            if kind == "comment" and _KEY.search(words):
                return None  # a part of an answer, which may be meant to count or not to count
            if kind == "comment":
                continue
            if kind == "close" and tokens[-1] == ",":
                tokens.pop()
            tokens.append(_PYTHON_WORDS.get(words, words))
            if depth == 0:
                read = _as_object(" ".join(tokens))
                return (
                    None
                    if read is None or self._is_closed_again(position)
                    else (read, position)
                )
        return None

    def _is_closed_again(self, end: int) -> bool:
        """Return whether a closing brace follows the object, which then may have ended too early."""
        following = self._text.find("{", end)
        return "}" in self._text[end : following if following >= 0 else len(self._text)]


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
