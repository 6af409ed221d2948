"""Outages by HTTP status, and the time at which a limit resets by the headers of a response. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from goalrunner.core.errors import Outage

RATE_LIMIT = 429
_OVERLOADED = 529
_PASSING = frozenset({408, 409, 425})
"""Status codes below 500 of failures that pass by themselves, besides the one of a rate limit."""


def outage_of(status: object, resets_at: datetime | None = None) -> Outage | None:
    """Return the outage that an HTTP status reports; None if the failure does not pass by itself."""
    if not isinstance(status, int) or isinstance(status, bool):
        return None
    if status == RATE_LIMIT:
        return Outage("limit", f"{status} rate limit", resets_at)
    if status in _PASSING or 500 <= status < 600:
        reason = (
            "overloaded"
            if status == _OVERLOADED
            else "server error"
            if status >= 500
            else "try again"
        )
        return Outage("overload", f"{status} {reason}", resets_at)
    return None


def usage_limit(window: str, resets_at: datetime | None) -> Outage:
    """Return the outage of a used-up subscription; `window` is the length of the limit in words, or empty."""
    return Outage(
        "limit", f"usage limit, {window}" if window else "usage limit", resets_at
    )


_SECONDS_OF_AN_EPOCH = 1e9
_MILLISECONDS_OF_AN_EPOCH = 1e12
_LATEST = 1e11
"""Larger numbers of seconds are no time."""


def time_of_epoch(value: object) -> datetime | None:
    """Return the time of a number of seconds since 1970; None for anything else."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not _SECONDS_OF_AN_EPOCH <= value < _LATEST
    ):
        return None
    return datetime.fromtimestamp(value, UTC)


def reset_time(
    headers: Mapping[str, str], now: datetime, *, limited: bool = True
) -> datetime | None:
    """Return when a refused request may be sent again: by Retry-After, or if `limited` by the reset headers of limits.

    Return None if the headers name no time after `now`. Reset headers of limits that are not used up do not count.
    """
    by_name = {name.lower(): value.strip() for name, value in headers.items()}
    named = [by_name["retry-after"]] if "retry-after" in by_name else []
    if limited and not named:
        named = [value for name, value in by_name.items() if _is_used_up(name, by_name)]
    times = (_time_of(value, now) for value in named)
    return max(
        (time for time in times if time is not None and time > now), default=None
    )


def _is_used_up(name: str, headers: Mapping[str, str]) -> bool:
    """Return whether a header names the reset of a limit of which nothing remains, as far as that is said."""
    if (
        "ratelimit" not in name.replace("rate-limit", "ratelimit")
        or "reset" not in name
    ):
        return False
    try:
        return float(headers.get(name.replace("reset", "remaining"), "0")) <= 0
    except ValueError:
        return False


_DURATION = re.compile(
    r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)


def _time_of(value: str, now: datetime) -> datetime | None:
    """Return the time that a header names: seconds from now, an epoch, "6m0s", RFC 3339 or an HTTP date."""
    try:
        return _time_of_number(float(value), now)
    except (ValueError, OverflowError):
        pass
    duration = _DURATION.fullmatch(value)
    try:
        if value and duration:
            days, hours, minutes, seconds, milliseconds = (
                float(part or 0) for part in duration.groups()
            )
            return now + timedelta(
                days=days,
                hours=hours,
                minutes=minutes,
                seconds=seconds,
                milliseconds=milliseconds,
            )
        named = (
            datetime.fromisoformat(value)
            if value[4:5] == "-"
            else parsedate_to_datetime(value)
        )
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return named if named.tzinfo else named.replace(tzinfo=UTC)


def _time_of_number(value: float, now: datetime) -> datetime | None:
    if value >= _MILLISECONDS_OF_AN_EPOCH:
        return time_of_epoch(value / 1000)
    if value >= _SECONDS_OF_AN_EPOCH:
        return time_of_epoch(value)
    return now + timedelta(seconds=value) if value >= 0 else None
