"""What typed errors of agents mean: an HTTP status, and the names that agents give to kinds of errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from goalrunner.agents.parser import Obstacle, at, number, text
from goalrunner.core.errors import Outage
from goalrunner.core.outages import outage_of, time_of_epoch, usage_limit

_OBSTACLES: Final[Mapping[object, Obstacle]] = {
    401: "sign_in",
    402: "refused",
    404: "refused",
    "authentication_failed": "sign_in",
    "oauth_org_not_allowed": "sign_in",
    "unauthorized": "sign_in",
    "billing_error": "refused",
    "model_not_found": "refused",
}
"""By HTTP status, or by the name that Claude Code or Codex gives to an error."""

_OUTAGES: Final[Mapping[object, Outage]] = {
    "rate_limit": Outage("limit", "rate limit"),
    "usage_limit_exceeded": usage_limit("", None),
    "overloaded": Outage("overload", "overloaded"),
    "server_error": Outage("overload", "server error"),
    "server_overloaded": Outage("overload", "server overloaded"),
    "internal_server_error": Outage("overload", "server error"),
    "http_connection_failed": Outage("overload", "connection failed"),
    "response_stream_connection_failed": Outage("overload", "connection failed"),
    "response_stream_disconnected": Outage("overload", "connection lost"),
    "response_too_many_failed_attempts": Outage("overload", "too many failed attempts"),
}


@dataclass(frozen=True)
class ErrorMeaning:
    """What an error means for later turns: it passes, it stays, or neither is known."""

    outage: Outage | None = None
    obstacle: Obstacle | None = None


def meaning_of(
    status: object = None, name: object = None, resets_at: datetime | None = None
) -> ErrorMeaning:
    """Return the meaning of an error with this HTTP status, or with this name; None if it has none."""
    status = status if type(status) is int else None
    name = name if isinstance(name, str) else None
    obstacle = _OBSTACLES.get(name) or _OBSTACLES.get(status)
    if obstacle is not None:
        return ErrorMeaning(obstacle=obstacle)
    return ErrorMeaning(
        outage_of(status, resets_at) if status is not None else _OUTAGES.get(name)
    )


def codex_meaning(info: Any, limits: Any) -> ErrorMeaning:
    """Return the meaning of Codex's `codex_error_info`; `limits` are the account's, as they were reported last."""
    name, details = (
        next(iter(info.items()), ("", None)) if isinstance(info, dict) else (info, None)
    )
    if name != "usage_limit_exceeded" or limits is None:
        return meaning_of(at(details, "http_status_code"), name)
    outage = _used_up(limits)
    return ErrorMeaning(outage, None if outage else "refused")


_WINDOWS = {300: "five hours", 10_080: "seven days"}
"""Minutes of a limit, and how they are shown."""
_USED_UP = 100.0


def _used_up(limits: Any) -> Outage | None:
    """Return the outage of a used-up window; None if the account has no windows, so that nothing resets."""
    windows = [
        window
        for name in ("primary", "secondary")
        if isinstance(window := at(limits, name), dict)
    ]
    if not windows:
        return None
    used_up = [
        window
        for window in windows
        if (number(window.get("used_percent")) or 0) >= _USED_UP
    ]
    resets = {
        time: window
        for window in used_up
        if (time := time_of_epoch(window.get("resets_at")))
    }
    if not resets:
        return usage_limit("", None)
    latest = max(resets)
    minutes = int(number(resets[latest].get("window_minutes")) or 0)
    return usage_limit(_WINDOWS.get(minutes, ""), latest)


_STATUS = (
    "code",
    "data.status",
    "data.statusCode",
    "data.status_code",
    "data.code",
    "data.httpStatusCode",
)


def response_meaning(error: Any) -> ErrorMeaning:
    """Return the meaning of the error in a JSON-RPC response: by an HTTP status, or by a name of its kind."""
    data = at(error, "data")
    info = at(data, "codex_error_info")
    if info is not None:
        return codex_meaning(info, None)
    values = (at(error, *path.split(".")) for path in _STATUS)
    status = next(
        (value for value in values if type(value) is int and 400 <= value < 600), None
    )
    return meaning_of(status, text(at(data, "errorKind")))
