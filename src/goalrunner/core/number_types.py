"""Types for the numbers, truth values and durations in a goal."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from goalrunner.core.wording import shown

LARGEST = 2**63 - 1
_LONGEST = 1e9
"""Seconds, some 31 years: more is a slip, and more than clocks take."""

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = r"[0-9]{1,15}(?:\.[0-9]{1,9})?"
_DURATION = r"\s*".join(rf"(?:({_NUMBER})\s*{unit})?" for unit in _UNITS)
_NOTATION = 'write seconds, or "90s", "30m", "2h"'


def parse_duration(text: str) -> float | None:
    """Return the seconds of "90s", "30m", "2h", "1h30m", "1d", "1.5h" or "500ms"; None for an invalid duration.

    Units are d, h, m, s and ms, each at most once, the larger first; a number needs a unit.
    """
    match = re.fullmatch(_DURATION, text.strip())
    if match is None or not text.strip():
        return None
    return sum(float(number) * unit for number, unit in zip(match.groups(), _UNITS.values(), strict=True) if number)


def _seconds(value: object) -> object:
    """Return seconds above zero; None for inf, which lifts the limit."""
    seconds = parse_duration(value) if isinstance(value, str) else value
    if value is None or seconds == math.inf:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds != seconds:
        raise ValueError(f"{shown(value)} is not a valid duration; {_NOTATION}")
    if seconds <= 0:
        raise ValueError(f"{shown(value)} is not above zero; {_NOTATION}, or inf to lift the limit")
    if seconds > _LONGEST:
        raise ValueError(f"{shown(value)} is longer than 30 years; write inf to lift the limit")
    return float(seconds)


def _lifted(value: object) -> object:
    """Return None for inf, which lifts a limit."""
    return None if value == math.inf else value


Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(ge=1, le=LARGEST, strict=True)]
CountLimit = Annotated[Count | None, BeforeValidator(_lifted)]
"""A whole number from 1; `inf` lifts the limit."""
Dollars = Annotated[float, Field(gt=0, le=_LONGEST, strict=True)]
DollarLimit = Annotated[Dollars | None, BeforeValidator(_lifted)]
"""US dollars above zero; `inf` lifts the limit."""
Share = Annotated[float, Field(ge=0, le=1, strict=True)]
_Written = Annotated[float, Field(gt=0, le=_LONGEST)] | Annotated[str, Field(pattern=f"^{_DURATION}$", min_length=1)]
DurationLimit = Annotated[float | None, BeforeValidator(_seconds, json_schema_input_type=_Written | None)]
"""Seconds above zero, as a number or a text like "30m"; `inf` lifts the limit."""
