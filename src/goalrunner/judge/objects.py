"""The JSON objects in a model's text. Owns the rules of reading JSON: strict, and in doubt unreadable; knows no verdict."""

from __future__ import annotations

import json
import re
from typing import Any

LIMIT = 400_000
"""Characters of an answer that are read; a longer one is no answer."""

_TRIES = 1_000
_THINKING = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)


class UnreadableReplyError(ValueError):
    """A judge's answer that cannot be read; its message is one sentence that says why."""


def objects_in(text: str) -> tuple[list[dict[str, Any]], str]:
    """Every outermost JSON object of an answer, and the text between them. A leading `<think>` block is no part of it.

    Raises UnreadableReplyError for JSON that Python would read but we do not (a key twice, NaN, half of a surrogate pair)
    and for a text too long.
    """
    if len(text) > LIMIT:
        raise UnreadableReplyError(f"The answer is longer than {LIMIT:,} characters.")
    thinking = _THINKING.match(text)
    found, rest = _objects(text[thinking.end() :] if thinking else text)
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableReplyError("The answer's JSON holds half of a character.") from None
    return found, rest


class _DoubtError(ValueError):
    """JSON that Python would read but we do not."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _DoubtError("The answer's JSON has a key twice in one object.")
    return value


def _constant(name: str) -> float:
    raise _DoubtError(f"The answer's JSON holds {name}, which is no JSON.")


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant)


def _objects(text: str) -> tuple[list[dict[str, Any]], str]:
    found: list[dict[str, Any]] = []
    between: list[str] = []
    position = 0
    start = text.find("{")
    tries = 0
    while start >= 0:
        tries += 1
        if tries > _TRIES:
            raise UnreadableReplyError("The answer holds too many braces to be one JSON object.")
        try:
            value, end = _DECODER.raw_decode(text, start)
        except _DoubtError as error:
            raise UnreadableReplyError(str(error)) from None
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        between.append(text[position:start])
        found.append(value)
        position = end
        start = text.find("{", end)
    between.append(text[position:])
    return found, "\n".join(between)
