"""What Codex writes into the file of a session: model and version, how a turn failed, limits of the account, usage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from goalrunner.agents.error_kinds import codex_meaning
from goalrunner.agents.json_lines import number, object_in
from goalrunner.agents.parser import Failed, SessionStarted, StreamEvent, UsageReported
from goalrunner.core.messages import at, block_text

_TAIL = 1_000_000
"""Bytes that are read of an end of a file."""
_SESSION = re.compile(r"[0-9A-Za-z-]{8,64}", re.ASCII)


def turn_details(
    failure: Failed, session: str, env: Mapping[str, str]
) -> Iterator[StreamEvent]:
    """Yield the usage of a session and how its last turn failed; nothing if the file cannot be read.

    `failure` is what the output says about it; the end of an earlier turn has another message.
    """
    entries = _last_entries(session, env)
    counted = _newest(entries, "info", "total_token_usage")
    if counted is not None:
        given, made = (
            int(number(at(counted, name)) or 0)
            for name in ("input_tokens", "output_tokens")
        )
        yield UsageReported(given, made, cumulative=True)
    marks = (
        entry
        for entry in reversed(entries)
        if at(entry, "type") in ("task_started", "task_complete")
    )
    error = at(next(marks, None), "error")
    if isinstance(error, dict) and block_text(error.get("message")) == failure.message:
        limits = _newest(entries, "rate_limits") or {}
        meaning = codex_meaning(error.get("codex_error_info"), limits)
        yield Failed(failure.message, outage=meaning.outage, obstacle=meaning.obstacle)


def session_start(session: str, env: Mapping[str, str]) -> SessionStarted:
    """Return the model of a session's first turn and the version of the program; empty if the file cannot be read."""
    model = version = ""
    for entry in _entries(session, env, from_end=False):
        match at(entry, "type"):
            case "session_meta":
                version = block_text(at(entry, "payload", "cli_version"))
            case "turn_context":
                model = block_text(at(entry, "payload", "model"))
                break
    return SessionStarted(session, model, version)


def _last_entries(session: str, env: Mapping[str, str]) -> list[Any]:
    """Return the events in the end of the session's file, oldest first."""
    return [
        at(entry, "payload")
        for entry in _entries(session, env, from_end=True)
        if at(entry, "type") == "event_msg"
    ]


def _entries(session: str, env: Mapping[str, str], *, from_end: bool) -> Iterator[Any]:
    """Yield the entries in one end of the session's file, oldest first; none if it cannot be read."""
    home = Path(env.get("CODEX_HOME") or Path(env.get("HOME", ""), ".codex"))
    if not _SESSION.fullmatch(session):
        return
    lines: list[bytes] = []
    try:
        for path in (home / "sessions").glob(f"*/*/*/rollout-*-{session}.jsonl"):
            with path.open("rb") as file:
                if from_end:
                    file.seek(max(0, path.stat().st_size - _TAIL))
                lines = file.read(_TAIL).split(b"\n")
    except OSError:
        return
    yield from (object_in(line.decode("utf-8", "replace")) for line in lines)


def _newest(entries: list[Any], *path: str) -> dict[str, Any] | None:
    """Return the newest object at a path."""
    values = (at(entry, *path) for entry in reversed(entries))
    return next((value for value in values if isinstance(value, dict)), None)
