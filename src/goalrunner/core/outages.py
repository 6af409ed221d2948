"""Outages of providers, by HTTP status and the headers of a response. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from goalrunner.core.errors import Outage

RATE_LIMIT = 429
_OVERLOADED = 529
_PASSING = frozenset({408, 409, 425})
"""Status codes below 500 of failures that pass by themselves, beside a rate limit."""


def outage_of(status: object, resets_at: datetime | None = None) -> Outage | None:
    """Return the outage that an HTTP status reports.

    None if the failure does not pass by itself.
    """
    # A bool is an int, and what a program reports as a status may be anything.
    if not isinstance(status, int) or isinstance(status, bool):
        return None
    if status == RATE_LIMIT:
        return Outage("limit", f"{status} rate limit", resets_at)
    if status == _OVERLOADED:
        return Outage("overload", f"{status} overloaded", resets_at)
    if 500 <= status < 600:
        return Outage("overload", f"{status} server error", resets_at)
    if status in _PASSING:
        return Outage("overload", f"{status} try again", resets_at)
    return None


def causes_of(error: BaseException) -> list[BaseException]:
    """Return an exception and those that caused it, without repetitions."""
    chain = [error]
    while True:
        cause = chain[-1].__cause__ or chain[-1].__context__
        if cause is None or cause in chain:
            return chain
        chain.append(cause)


def outage_of_error(error: BaseException, now: datetime) -> Outage | None:
    """Return the outage that an exception of a provider's client reports.

    None if there is none. Such an exception, or one of its causes, has the HTTP status
    as `status_code` or `code`, and may have the headers of the response.
    """
    for item in causes_of(error):
        response = getattr(item, "response", None)
        status = _status_of(item) or _status_of(response)
        outage = outage_of(status)
        if outage is None:
            continue
        headers = _headers_of(item) or _headers_of(response)
        resets_at = reset_time(headers, now, limited=status == RATE_LIMIT)
        return replace(outage, resets_at=resets_at)
    return None


def _status_of(source: object) -> object:
    return getattr(source, "status_code", None) or getattr(source, "code", None)


def _headers_of(source: object) -> dict[str, str]:
    headers = getattr(source, "headers", None)
    if not isinstance(headers, Mapping):
        return {}
    return {str(name): str(value) for name, value in headers.items()}


def usage_limit(window: str, resets_at: datetime | None) -> Outage:
    """Return the outage of a used-up subscription.

    `window` is the length of the limit in words, or empty.
    """
    reason = f"usage limit, {window}" if window else "usage limit"
    return Outage("limit", reason, resets_at)


_SECONDS_OF_AN_EPOCH = 1e9
_MILLISECONDS_OF_AN_EPOCH = 1e12
_LATEST = 1e11
"""Larger numbers of seconds are no time."""


def time_of_epoch(value: object) -> datetime | None:
    """Return the time of a number of seconds since 1970; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not _SECONDS_OF_AN_EPOCH <= value < _LATEST:
        return None
    return datetime.fromtimestamp(value, UTC)


def reset_time(
    headers: Mapping[str, str], now: datetime, *, limited: bool = True
) -> datetime | None:
    """Return when a refused request may be sent again; None if no header names a time.

    Retry-After decides; without it, and if `limited`, the reset headers of limits that
    are used up. Times that are not after `now` do not count.
    """
    by_name = {name.lower(): value.strip() for name, value in headers.items()}
    values = []
    if "retry-after" in by_name:
        values = [by_name["retry-after"]]
    elif limited:
        values = [
            value for name, value in by_name.items() if _is_used_up(name, by_name)
        ]
    times = [_time_of(value, now) for value in values]
    later = [time for time in times if time is not None and time > now]
    return max(later, default=None)


def _is_used_up(name: str, headers: Mapping[str, str]) -> bool:
    """Return whether a header names the reset of a limit of which nothing remains.

    A limit without a header of what remains counts as used up.
    """
    # `x-ratelimit-...`, `anthropic-ratelimit-...`; some providers write `rate-limit`.
    is_of_limit = "ratelimit" in name.replace("rate-limit", "ratelimit")
    if not is_of_limit or "reset" not in name:
        return False
    try:
        return float(headers.get(name.replace("reset", "remaining"), "0")) <= 0
    except ValueError:
        return False


_DURATION = re.compile(
    r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)


def _time_of(value: str, now: datetime) -> datetime | None:
    """Return the time that a header names; None if it names none.

    It is a number of seconds from now, an epoch, "6m0s", RFC 3339 or an HTTP date.
    """
    try:
        return _time_of_number(float(value), now)
    except (ValueError, OverflowError):
        pass
    try:
        return _time_of_duration(value, now) or _time_of_date(value)
    except (ValueError, OverflowError, TypeError, IndexError):
        # The parser of HTTP dates raises each of these for some texts.
        return None


def _time_of_number(value: float, now: datetime) -> datetime | None:
    if value >= _MILLISECONDS_OF_AN_EPOCH:
        return time_of_epoch(value / 1000)
    if value >= _SECONDS_OF_AN_EPOCH:
        return time_of_epoch(value)
    return now + timedelta(seconds=value) if value >= 0 else None


def _time_of_duration(value: str, now: datetime) -> datetime | None:
    match = _DURATION.fullmatch(value)
    if match is None or not value:
        return None
    days, hours, minutes, seconds, milliseconds = map(float, match.groups("0"))
    return now + timedelta(
        days=days,
        hours=hours,
        minutes=minutes,
        seconds=seconds,
        milliseconds=milliseconds,
    )


def _time_of_date(value: str) -> datetime:
    is_iso = value[4:5] == "-"
    parse = datetime.fromisoformat if is_iso else parsedate_to_datetime
    time = parse(value)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
