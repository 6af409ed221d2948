"""What options about limits may have as their values.

This imports little, so that the commands of a fleet start fast.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

from goalrunner.cli.options import checked


def _moment(text: str) -> str | None:
    """Return the moment of `--until` in ISO 8601, with a time zone."""
    now = datetime.now().astimezone()
    clock = re.fullmatch(r"(\d{1,2}):(\d{2})", text)
    if clock is None:
        moment = datetime.fromisoformat(text)
        # Without a zone, it is a time on the clock of the person.
        return (moment if moment.tzinfo else moment.astimezone()).isoformat()
    moment = now.replace(
        hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0
    )
    # A time of day that is over today is that of tomorrow.
    return (moment if moment > now else moment + timedelta(days=1)).isoformat()


def _dollars(text: str) -> float | None:
    value = float(text)
    return value if value > 0 else None


def _token_count(text: str) -> float | None:
    value = float(text)
    return value if value >= 1 and (value == math.inf or value.is_integer()) else None


UNTIL = checked(_moment, '"07:30" or "2026-01-31T07:30"')
DOLLARS = checked(_dollars, "dollars, such as 2.50, or inf")
TOKENS = checked(_token_count, "a whole number from 1, or inf")
