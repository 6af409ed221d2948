"""Readers of single values: types, ranges and durations."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import Enum
from typing import Final

from goalrunner.goalfile.problems import Spot, kind, listed, nearest, quoted, shown

NOTATION = 'write seconds, or "90s", "30m", "2h"'

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_DURATION = re.compile(r"\s*".join(rf"(?:(?P<{unit}>{_NUMBER})\s*{unit})?" for unit in _UNITS))


def parse_duration(text: str) -> float | None:
    """Seconds of "90s", "30m", "2h", "1h30m", "1d", "1.5h" or "500ms"; None if it is not a valid duration.

    Units are d, h, m, s and ms, each at most once, the larger first; a number without a unit is none.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or not text.strip():
        return None
    return sum(float(number) * _UNITS[unit] for unit, number in match.groupdict().items() if number is not None)


class _Mark(Enum):
    WRONG = "wrong"


WRONG: Final = _Mark.WRONG
"""In place of a value that did not hold; the reason has been said."""

Reader = Callable[[object, Spot], object]
"""Takes a value and its spot; gives the value as the goal holds it, or WRONG."""

_LARGEST = 2**63 - 1
_LONGEST = 1e9
"""Seconds, some 31 years: more is a slip, and more than clocks take."""


def string(value: object, spot: Spot) -> object:
    """Any text that can be written to a file and handed to a process."""
    if not isinstance(value, str):
        spot.wrong(f"must be a string, not {kind(value)}")
        return WRONG
    if "\0" in value:
        spot.wrong("holds a NUL character; remove it")
        return WRONG
    if not _is_unicode(value):
        spot.wrong("holds bytes that are not UTF-8")
        return WRONG
    return value


def text(value: object, spot: Spot) -> object:
    """Text that says something."""
    read = string(value, spot)
    if isinstance(read, str) and not read.strip():
        spot.wrong("is empty; write something, or remove it")
        return WRONG
    return read


def needed(value: object, spot: Spot) -> object:
    """Text that says something, where a goal cannot do without."""
    read = string(value, spot)
    if isinstance(read, str) and not read.strip():
        spot.wrong("is empty; write something")
        return WRONG
    return read


def texts(value: object, spot: Spot) -> object:
    """A list of texts."""
    if not isinstance(value, list | tuple):
        spot.wrong(f"must be a list of strings, not {kind(value)}")
        return WRONG
    return [text(item, spot.item(index)) for index, item in enumerate(value)]


def each(reader: Reader) -> Reader:
    """A list, every item of which one reader reads."""

    def read(value: object, spot: Spot) -> object:
        if not isinstance(value, list | tuple):
            spot.wrong(f"must be a list of strings, not {kind(value)}")
            return WRONG
        return [reader(item, spot.item(index)) for index, item in enumerate(value)]

    return read


def line(value: object, spot: Spot) -> object:
    """Text of one line, without control characters."""
    read = text(value, spot)
    if isinstance(read, str) and not read.isprintable():
        spot.wrong(f"{quoted(read)} must be one line without control characters")
        return WRONG
    return read


def truth(value: object, spot: Spot) -> object:
    """True or false, and nothing that resembles them."""
    value = _literal(value, spot)
    if isinstance(value, bool):
        return value
    spot.wrong(f"must be true or false, not {kind(value)}")
    return WRONG


def one_of(*choices: str) -> Reader:
    """One of a few words."""

    def read(value: object, spot: Spot) -> object:
        if not isinstance(value, str):
            spot.wrong(f"must be one of {listed(choices)}, not {kind(value)}")
            return WRONG
        if value not in choices:
            near = nearest(value, choices)
            guess = f"; did you mean {quoted(near)}?" if near else ";"
            spot.wrong(f"{quoted(value)} is unknown{guess} valid: {listed(choices)}")
            return WRONG
        return value

    return read


def whole(*, at_least: int, at_most: int, liftable: bool = False) -> Reader:
    """A whole number within bounds; `inf`, where it may be lifted, gives None."""
    upper = f" to {at_most}" if at_most < _LARGEST else ""
    lift = ", or inf to lift the limit" if liftable else ""
    remedy = f"write a whole number from {at_least}{upper}{lift}"

    def read(value: object, spot: Spot) -> object:
        value = _literal(value, spot)
        if liftable and value == math.inf:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            spot.wrong(f"must be a whole number, not {kind(value)}")
            return WRONG
        if not at_least <= value <= at_most:
            why = "is not above zero" if at_least == 1 and value < 1 else "is out of range"
            spot.wrong(f"{shown(value)} {why}; {remedy}")
            return WRONG
        return value

    return read


count = whole(at_least=1, at_most=_LARGEST)
"""A whole number from 1."""

count_limit = whole(at_least=1, at_most=_LARGEST, liftable=True)
"""The same for a limit: `inf` lifts it."""


def duration_limit(value: object, spot: Spot) -> object:
    """Seconds above zero, as a number or in the notation of durations; `inf` lifts the limit."""
    value = _literal(value, spot)
    seconds = parse_duration(value) if isinstance(value, str) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds != seconds:
        spot.wrong(f"{shown(value)} is not a valid duration; {NOTATION}")
        return WRONG
    if seconds == math.inf:
        return None
    if seconds <= 0:
        spot.wrong(f"{shown(value)} is not above zero; {NOTATION}, or inf to lift the limit")
        return WRONG
    if seconds > _LONGEST:
        spot.wrong(f"{shown(value)} is longer than 30 years; write inf to lift the limit")
        return WRONG
    return float(seconds)


def dollars_limit(value: object, spot: Spot) -> object:
    """US dollars above zero; `inf` lifts the limit."""
    value = _literal(value, spot)
    if isinstance(value, bool) or not isinstance(value, int | float):
        spot.wrong(f"must be a number of US dollars, not {kind(value)}")
        return WRONG
    if value == math.inf:
        return None
    if not 0 < value <= _LONGEST:
        why = "is too large" if value > 0 else "is not above zero"
        spot.wrong(f"{shown(value)} {why}; write a number of US dollars, or inf to lift the limit")
        return WRONG
    return float(value)


def share(value: object, spot: Spot) -> object:
    """A number from 0 to 1."""
    value = _literal(value, spot)
    if isinstance(value, bool) or not isinstance(value, int | float):
        spot.wrong(f"must be a number from 0 to 1, not {kind(value)}")
        return WRONG
    if not 0 <= value <= 1:
        spot.wrong(f"{shown(value)} is out of range; write a number from 0 to 1")
        return WRONG
    return float(value)


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _literal(value: object, spot: Spot) -> object:
    """A value of the command line as the number or truth that it spells; anything else as it is."""
    if not (spot.source.textual and isinstance(value, str)):
        return value
    if value in {"true", "false"}:
        return value == "true"
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value
