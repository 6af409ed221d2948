"""The files in which Codex records its sessions.

They contain what its output omits: model and version, how a turn failed, the limits of
the account, and the usage of a failed turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from goalrunner.agents.error_kinds import codex_meaning
from goalrunner.agents.json_lines import number, object_in
from goalrunner.agents.parser import Failed, SessionStarted, StreamEvent, UsageReported
from goalrunner.core.messages import at, block_text

# Bytes that are read of an end of a file: a long session has many megabytes.
_END = 1_000_000
# The id becomes a part of a glob pattern, and comes from the agent's output.
_SESSION = re.compile(r"[0-9A-Za-z-]{8,64}", re.ASCII)


def turn_details(
    failure: Failed, session: str, env: Mapping[str, str]
) -> Iterator[StreamEvent]:
    """Yield the usage of a session and how its last turn failed.

    Yield nothing if the file cannot be read. `failure` is what the output says about
    the turn.
    """
    entries = _last_entries(session, env)
    used = _newest(entries, "info", "total_token_usage")
    if used is not None:
        yield UsageReported(
            int(number(at(used, "input_tokens")) or 0),
            int(number(at(used, "output_tokens")) or 0),
            cumulative=True,
        )
    error = at(_last_mark(entries), "error")
    if not isinstance(error, dict):
        return
    # The end of an earlier turn has another message.
    if block_text(error.get("message")) == failure.message:
        limits = _newest(entries, "rate_limits") or {}
        meaning = codex_meaning(error.get("codex_error_info"), limits)
        yield Failed(failure.message, outage=meaning.outage, obstacle=meaning.obstacle)


def _last_mark(entries: list[Any]) -> Any:
    """Return the newest entry about the beginning or the end of a turn."""
    for entry in reversed(entries):
        if at(entry, "type") in ("task_started", "task_complete"):
            return entry
    return None


def session_start(session: str, env: Mapping[str, str]) -> SessionStarted:
    """Return the model of a session's first turn and the version of the program.

    Both are empty if the file cannot be read.
    """
    model = version = ""
    for entry in _entries(session, env, from_end=False):
        match at(entry, "type"):
            case "session_meta":
                version = block_text(at(entry, "payload", "cli_version"))
            case "turn_context":
                model = block_text(at(entry, "payload", "model"))
                # Later turns may use another model, which is not that of the session's
                # start.
                break
    return SessionStarted(session, model, version)


def _last_entries(session: str, env: Mapping[str, str]) -> list[Any]:
    """Return the events in the end of the session's file, oldest first."""
    entries = _entries(session, env, from_end=True)
    events = [entry for entry in entries if at(entry, "type") == "event_msg"]
    return [at(event, "payload") for event in events]


def _entries(session: str, env: Mapping[str, str], *, from_end: bool) -> Iterator[Any]:
    """Yield the entries in one end of the session's file, oldest first.

    Yield nothing if it cannot be read. A line that was cut is yielded as None.
    """
    home = Path(env.get("CODEX_HOME") or Path(env.get("HOME", ""), ".codex"))
    if not _SESSION.fullmatch(session):
        return
    lines: list[bytes] = []
    try:
        for path in (home / "sessions").glob(f"*/*/*/rollout-*-{session}.jsonl"):
            with path.open("rb") as file:
                # The first line is cut then, and is no JSON.
                if from_end:
                    file.seek(max(0, path.stat().st_size - _END))
                lines = file.read(_END).split(b"\n")
    except OSError:
        return
    for line in lines:
        yield object_in(line.decode("utf-8", "replace"))


def _newest(entries: list[Any], *path: str) -> dict[str, Any] | None:
    """Return the newest object at a path."""
    for entry in reversed(entries):
        value = at(entry, *path)
        if isinstance(value, dict):
            return value
    return None
