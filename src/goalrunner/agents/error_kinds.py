"""What the typed errors of agents mean for later turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from goalrunner.agents.json_lines import number
from goalrunner.agents.parser import Obstacle
from goalrunner.core.errors import Outage
from goalrunner.core.messages import at, text
from goalrunner.core.outages import outage_of, time_of_epoch, usage_limit

# By HTTP status, or by the name that Claude Code or Codex gives to an error.
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

# By the name that Claude Code or Codex gives to an error.
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

    @property
    def is_unknown(self) -> bool:
        """Whether the error says nothing about later turns."""
        return self.outage is None and self.obstacle is None


def meaning_of(
    status: object = None, name: object = None, resets_at: datetime | None = None
) -> ErrorMeaning:
    """Return the meaning of an error with this HTTP status, or with this name."""
    # The values come from an agent's JSON and may have any type; True is no status.
    status = status if type(status) is int else None
    name = name if isinstance(name, str) else None
    obstacle = _OBSTACLES.get(name) or _OBSTACLES.get(status)
    if obstacle is not None:
        return ErrorMeaning(obstacle=obstacle)
    if status is not None:
        return ErrorMeaning(outage_of(status, resets_at))
    return ErrorMeaning(_OUTAGES.get(name))


def codex_meaning(info: Any, limits: Any) -> ErrorMeaning:
    """Return the meaning of Codex's `codex_error_info`.

    `limits` are the account's limits that were reported last.
    """
    # A name alone, or an object with the name as its only key.
    name, details = info, None
    if isinstance(info, dict):
        name, details = next(iter(info.items()), ("", None))
    if name != "usage_limit_exceeded" or limits is None:
        return meaning_of(at(details, "http_status_code"), name)
    outage = _used_up(limits)
    if outage is None:
        return ErrorMeaning(obstacle="refused")
    return ErrorMeaning(outage)


# Minutes of a limit, and how they are shown.
_WINDOWS = {300: "five hours", 10_080: "seven days"}
# Percent.
_USED_UP = 100.0


def _used_up(limits: Any) -> Outage | None:
    """Return the outage of a used-up window.

    Return None if the account has no windows: then nothing resets by itself.
    """
    windows = [at(limits, "primary"), at(limits, "secondary")]
    windows = [window for window in windows if isinstance(window, dict)]
    if not windows:
        return None
    windows_by_reset: dict[datetime, dict[str, Any]] = {}
    for window in windows:
        used_percent = number(window.get("used_percent")) or 0
        reset = time_of_epoch(window.get("resets_at"))
        if used_percent >= _USED_UP and reset is not None:
            windows_by_reset[reset] = window
    if not windows_by_reset:
        return usage_limit("", None)
    # If both windows are used up, work can begin again when the later one resets.
    latest = max(windows_by_reset)
    minutes = int(number(windows_by_reset[latest].get("window_minutes")) or 0)
    return usage_limit(_WINDOWS.get(minutes, ""), latest)


# Where ACP agents put the HTTP status of the provider's answer.
_STATUS = (
    "code",
    "data.status",
    "data.statusCode",
    "data.status_code",
    "data.code",
    "data.httpStatusCode",
)


def response_meaning(error: Any) -> ErrorMeaning:
    """Return the meaning of the error in a JSON-RPC response."""
    data = at(error, "data")
    info = at(data, "codex_error_info")
    if info is not None:
        return codex_meaning(info, None)
    return meaning_of(_http_status(error), text(at(data, "errorKind")))


def _http_status(error: Any) -> int | None:
    """Return the HTTP status of an error, or None.

    JSON-RPC's own error codes are negative.
    """
    for path in _STATUS:
        value = at(error, *path.split("."))
        if type(value) is int and 400 <= value < 600:
            return value
    return None
