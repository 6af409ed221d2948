"""Finding a value in JSON by a path of keys joined by dots. Owns how what is found becomes text or a number; pure.

Nothing here raises for what an agent wrote: what is not there, or is something else than hoped for, counts as missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

_HALF: Final = re.compile("[\ud800-\udfff]")
_LARGEST: Final = 10**15
"""No honest count of tokens is larger."""


class _Missing:
    pass


MISSING: Final = _Missing()


def found(value: Any, path: str) -> Any:
    """What stands at the path, MISSING where nothing does. A number names an item of a list; "" is the value itself."""
    for key in path.split(".") if path else ():
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < 7 and int(key) < len(value):
            value = value[int(key)]
        else:
            return MISSING
    return value


def first(value: Any, paths: Iterable[str]) -> Any:
    """The first of several that is there and says something; MISSING where none is."""
    values = (found(value, path) for path in paths)
    return next((one for one in values if one is not MISSING and one is not None), MISSING)


def holds(value: Any, conditions: Mapping[str, str | int | bool | tuple[str, ...]]) -> bool:
    """Whether each path has the value that is wanted, or one of several. True is not 1."""
    return all(_is(found(value, path), wanted) for path, wanted in conditions.items())


def _is(value: Any, wanted: str | int | bool | tuple[str, ...]) -> bool:
    options = wanted if isinstance(wanted, tuple) else (wanted,)
    return any(type(value) is type(option) and value == option for option in options)


def text_at(value: Any, paths: Iterable[str]) -> str:
    """What is found as text that can be encoded; blocks of text are joined, other things written as JSON; else ""."""
    return _text(first(value, paths))


def _text(value: Any) -> str:
    if value is MISSING:
        return ""
    if isinstance(value, list) and value and all(isinstance(found(block, "text"), str) for block in value):
        value = "\n".join(block["text"] for block in value)
    return clean(value) if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """A value that was read from JSON as JSON again; empty for one that is nested too deep to be written."""
    try:
        return clean(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return ""


def clean(text: str) -> str:
    """The text without halves of characters, which nothing could write."""
    # Searched, and not encoded and decoded: a text may be of 64 MB.
    return text if text.isascii() or _HALF.search(text) is None else _HALF.sub("?", text)


def count_at(value: Any, paths: Iterable[str]) -> int:
    """A count, 0 where there is none."""
    return int(_number(first(value, paths)) or 0)


def total_at(value: Any, paths: Iterable[str]) -> int:
    """The sum of what stands at all the paths."""
    return sum(int(_number(found(value, path)) or 0) for path in paths)


def dollars_at(value: Any, paths: Iterable[str]) -> float | None:
    """An amount; None where there is none."""
    return _number(first(value, paths))


def exit_code_at(value: Any, paths: Iterable[str]) -> int | None:
    """An exit code; None where there is none."""
    code = first(value, paths)
    return code if type(code) is int and -_LARGEST < code < _LARGEST else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= _LARGEST else None  # which NaN is not, nor infinity
