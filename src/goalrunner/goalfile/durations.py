"""Lengths of time as people write them. Owns the notation; knows no limits."""

from __future__ import annotations

import re

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
