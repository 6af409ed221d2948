"""JSON values in the lines of an agent's output.

An agent may print anything, so each function returns None for a value of another type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from goalrunner.core.messages import at

LONGEST_LINE = 128_000_000
"""Bytes."""

# No plausible number of tokens or dollars is larger.
_LARGEST: Final = 10**15
# Shells report at most 255, Windows an unsigned number of 32 bits, and some agents the
# negative number of a signal.
_LEAST_CODE, _GREATEST_CODE = -1_000, 2**32


def first(value: Any, *paths: str) -> Any:
    """Return the first value that is not None at one of the paths.

    Paths are keys joined by dots.
    """
    for path in paths:
        item = at(value, *path.split("."))
        if item is not None:
            return item
    return None


def object_in(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line."""
    try:
        # Some agents print control characters inside of strings.
        value = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def number(value: Any) -> float | None:
    """Return a number that is not negative and finite."""
    # A bool is an int.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= _LARGEST else None


def exit_code(value: Any) -> int | None:
    """Return an exit code."""
    if type(value) is not int:
        return None
    return value if _LEAST_CODE < value < _GREATEST_CODE else None


class Lines:
    """Splits pieces of bytes into lines.

    Invalid UTF-8 becomes U+FFFD. A line of more than `longest` bytes is left out.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        # The beginning of a line whose end has not come yet.
        self._line = bytearray()
        self._is_too_long = False

    def feed(self, piece: bytes) -> Iterator[str]:
        """Yield the lines that are complete now, without their newlines."""
        *ends, beginning = piece.split(b"\n")
        for end in ends:
            self._extend(end)
            if not self._is_too_long:
                yield self._line.decode("utf-8", "replace")
            self._line = bytearray()
            self._is_too_long = False
        self._extend(beginning)

    def _extend(self, part: bytes) -> None:
        if len(self._line) + len(part) > self._longest:
            self._is_too_long = True
        # Memory stays bounded if the end of a line never comes.
        if self._is_too_long:
            self._line.clear()
        else:
            self._line += part
