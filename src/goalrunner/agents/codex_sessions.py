"""What Codex writes about a turn into the file of its session: how it failed, the limits of the account, its usage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from goalrunner.agents.parser import (
    Failed,
    StreamEvent,
    UsageReported,
    at,
    block_text,
    number,
    object_in,
    obstacle_of_status,
)
from goalrunner.core.errors import Outage
from goalrunner.core.outages import outage_of, time_of_epoch, usage_limit

_TAIL = 1_000_000
"""Bytes that are read of the end of a file."""
_SESSION = re.compile(r"[0-9A-Za-z-]{8,64}", re.ASCII)
_WINDOWS = {300: "five hours", 10_080: "seven days"}
"""Minutes of a limit, and how they are shown."""
_USED_UP = 100.0
_OVERLOADS = ("server_overloaded", "internal_server_error", "response_stream_disconnected", "http_connection_failed")


def turn_details(failure: Failed, session: str, env: Mapping[str, str]) -> Iterator[StreamEvent]:
    """Yield the usage of a session and how its last turn failed; nothing if the file cannot be read.

    `failure` is what the output says about it; the end of an earlier turn has another message.
    """
    entries = _last_entries(session, env)
    counted = _newest(entries, "info", "total_token_usage")
    if counted is not None:
        given, made = (int(number(at(counted, name)) or 0) for name in ("input_tokens", "output_tokens"))
        yield UsageReported(given, made, cumulative=True)
    marks = (entry for entry in reversed(entries) if at(entry, "type") in ("task_started", "task_complete"))
    error = at(next(marks, None), "error")
    if isinstance(error, dict) and block_text(error.get("message")) == failure.message:
        yield _failure(error, _newest(entries, "rate_limits"))


def _last_entries(session: str, env: Mapping[str, str]) -> list[Any]:
    """Return the events in the end of the session's file, oldest first."""
    home = Path(env.get("CODEX_HOME") or Path(env.get("HOME", ""), ".codex"))
    if not _SESSION.fullmatch(session):
        return []
    lines: list[bytes] = []
    try:
        for path in (home / "sessions").glob(f"*/*/*/rollout-*-{session}.jsonl"):
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _TAIL))
                lines = file.read(_TAIL).split(b"\n")
    except OSError:
        return []
    entries = (object_in(line.decode("utf-8", "replace")) for line in lines)
    return [at(entry, "payload") for entry in entries if at(entry, "type") == "event_msg"]


def _newest(entries: list[Any], *path: str) -> dict[str, Any] | None:
    """Return the newest object at a path."""
    values = (at(entry, *path) for entry in reversed(entries))
    return next((value for value in values if isinstance(value, dict)), None)


def _failure(error: dict[str, Any], limits: Any) -> Failed:
    """Return the failure of a turn; `limits` are the account's, as they were reported last."""
    message, info = block_text(error.get("message")), error.get("codex_error_info")
    name, details = next(iter(info.items()), ("", None)) if isinstance(info, dict) else (info, None)
    status = at(details, "http_status_code")
    if name == "usage_limit_exceeded":
        outage = _limit(limits)
        return Failed(message, outage=outage, obstacle=None if outage else "refused")
    if name == "unauthorized":
        return Failed(message, obstacle="sign_in")
    outage = outage_of(status)
    if outage is None and status is None and name in _OVERLOADS:
        outage = Outage("overload", str(name).replace("_", " "))
    return Failed(message, outage=outage, obstacle=obstacle_of_status(status))


def _limit(limits: Any) -> Outage | None:
    """Return the outage of a used-up window; None if the account has no windows, so that nothing resets."""
    windows = [window for name in ("primary", "secondary") if isinstance(window := at(limits, name), dict)]
    if not windows:
        return None
    used_up = [window for window in windows if (number(window.get("used_percent")) or 0) >= _USED_UP]
    resets = {time: window for window in used_up if (time := time_of_epoch(window.get("resets_at")))}
    if not resets:
        return usage_limit("", None)
    latest = max(resets)
    minutes = number(resets[latest].get("window_minutes"))
    return usage_limit(_WINDOWS.get(int(minutes or 0), ""), latest)
