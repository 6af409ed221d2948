"""Codex writes into the file of its session why a turn failed. The entries are those of the program, shortened."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from goalrunner.agents.codex_sessions import session_start, turn_details
from goalrunner.agents.parser import (
    Failed,
    SessionStarted,
    StreamEvent,
    UsageReported,
)
from goalrunner.core.errors import Outage

THREAD = "01a21b7f-b290-7370-acfa-a9ecc8cb36dc"
MESSAGE = "You\u2019ve hit your usage limit. Visit https://chatgpt.com/settings/usage or try again at 7:34 AM."
STARTED = {"type": "task_started"}
FIVE_HOURS = {"used_percent": 100.0, "window_minutes": 300, "resets_at": 1795764884}
WEEK = {"used_percent": 100.0, "window_minutes": 10_080, "resets_at": 1795851284}
RESET, RESET_OF_THE_WEEK = (
    datetime.fromtimestamp(epoch, UTC) for epoch in (1795764884, 1795851284)
)


def ended(info: object, message: str = MESSAGE) -> dict[str, Any]:
    return {
        "type": "task_complete",
        "error": {"message": message, "codex_error_info": info},
    }


def counted(
    primary: object = None, secondary: object = None, tokens: object = None
) -> dict[str, Any]:
    limits = {"primary": primary, "secondary": secondary, "credits": None}
    return {"type": "token_count", "info": tokens, "rate_limits": limits}


def details(
    home: Path, *payloads: dict[str, Any], thread: str = THREAD
) -> list[StreamEvent]:
    folder = home / ".codex/sessions/2026/11/27"
    folder.mkdir(parents=True)
    lines = [
        json.dumps({"type": "event_msg", "payload": payload}) + "\n"
        for payload in payloads
    ]
    (folder / f"rollout-2026-11-27T05-34-43-{THREAD}.jsonl").write_text("".join(lines))
    return list(turn_details(Failed(MESSAGE), thread, {"HOME": str(home)}))


@pytest.mark.parametrize(
    ("primary", "secondary", "outage"),
    [
        (
            FIVE_HOURS,
            {**WEEK, "used_percent": 40.0},
            Outage("limit", "usage limit, five hours", RESET),
        ),
        (
            {**FIVE_HOURS, "used_percent": 20.0},
            WEEK,
            Outage("limit", "usage limit, seven days", RESET_OF_THE_WEEK),
        ),
        (
            FIVE_HOURS,
            WEEK,
            Outage("limit", "usage limit, seven days", RESET_OF_THE_WEEK),
        ),
        ({**FIVE_HOURS, "resets_at": None}, None, Outage("limit", "usage limit")),
        ({**FIVE_HOURS, "used_percent": 99.0}, None, Outage("limit", "usage limit")),
    ],
)
def test_a_used_up_window_names_its_reset(
    tmp_path: Path, primary: object, secondary: object, outage: Outage
) -> None:
    entries = (STARTED, counted(primary, secondary), ended("usage_limit_exceeded"))
    assert details(tmp_path, *entries) == [Failed(MESSAGE, outage=outage)]


def test_a_quota_without_a_window_does_not_reset(tmp_path: Path) -> None:
    entries = (STARTED, counted(), ended("usage_limit_exceeded"))
    assert details(tmp_path, *entries) == [Failed(MESSAGE, obstacle="refused")]


@pytest.mark.parametrize(
    ("info", "failed"),
    [
        (
            {"http_connection_failed": {"http_status_code": 529}},
            Failed(MESSAGE, outage=Outage("overload", "529 overloaded")),
        ),
        (
            {"response_too_many_failed_attempts": {"http_status_code": 429}},
            Failed(MESSAGE, outage=Outage("limit", "429 rate limit")),
        ),
        (
            "server_overloaded",
            Failed(MESSAGE, outage=Outage("overload", "server overloaded")),
        ),
        (
            {"response_stream_disconnected": {"http_status_code": None}},
            Failed(MESSAGE, outage=Outage("overload", "connection lost")),
        ),
        (
            {"http_connection_failed": {"http_status_code": 401}},
            Failed(MESSAGE, obstacle="sign_in"),
        ),
        ("unauthorized", Failed(MESSAGE, obstacle="sign_in")),
        ("context_window_exceeded", Failed(MESSAGE)),
        ("other", Failed(MESSAGE)),
        (None, Failed(MESSAGE)),
        (["server_overloaded"], Failed(MESSAGE)),
    ],
)
def test_a_failure_has_its_kind(tmp_path: Path, info: object, failed: Failed) -> None:
    assert details(tmp_path, STARTED, ended(info)) == [failed]


def test_the_usage_of_a_failed_turn_is_read(tmp_path: Path) -> None:
    tokens = {
        "total_token_usage": {
            "input_tokens": 40,
            "cached_input_tokens": 10,
            "output_tokens": 20,
        }
    }
    (used, _) = details(
        tmp_path, STARTED, counted(tokens=tokens), counted(), ended("other")
    )
    assert used == UsageReported(40, 20, cumulative=True)


@pytest.mark.parametrize(
    "entries",
    [
        (),
        (STARTED, ended("server_overloaded"), STARTED),
        (STARTED, ended("server_overloaded", "another failure")),
        ({"type": "agent_message", "message": MESSAGE, "error": {"message": MESSAGE}},),
        ({"type": "task_complete", "error": None},),
    ],
)
def test_another_turn_says_nothing(
    tmp_path: Path, entries: tuple[dict[str, Any], ...]
) -> None:
    assert details(tmp_path, *entries) == []


@pytest.mark.parametrize("thread", ["", "*", "../../x", THREAD[:-1] + "0"])
def test_the_file_of_another_session_is_not_read(tmp_path: Path, thread: str) -> None:
    assert details(tmp_path, STARTED, ended("server_overloaded"), thread=thread) == []


def test_a_folder_of_its_own_is_found(tmp_path: Path) -> None:
    details(tmp_path, STARTED, ended("server_overloaded"))
    env = {"HOME": "/nowhere", "CODEX_HOME": str(tmp_path / ".codex")}
    assert list(turn_details(Failed(MESSAGE), THREAD, env))
    assert not list(turn_details(Failed(MESSAGE), THREAD, {"HOME": "/nowhere"}))


def test_the_start_of_a_session_names_its_model_and_the_version(tmp_path: Path) -> None:
    folder = tmp_path / "codex/sessions/2026/11/27"
    folder.mkdir(parents=True)
    entries = [
        {"type": "session_meta", "payload": {"cli_version": "0.169.0"}},
        {"type": "turn_context", "payload": {"model": "gpt-6"}},
        {"type": "turn_context", "payload": {"model": "gpt-7"}},
    ]
    file = folder / f"rollout-2026-11-27T05-34-43-{THREAD}.jsonl"
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    env = {"CODEX_HOME": str(tmp_path / "codex")}
    assert session_start(THREAD, env) == SessionStarted(THREAD, "gpt-6", "0.169.0")
    assert session_start("another-thread", env) == SessionStarted("another-thread")
