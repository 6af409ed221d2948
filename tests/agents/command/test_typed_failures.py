"""No text of the model or of a tool is taken for a failure: only typed fields of the agent's own events are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.agents.output_reader import Reader
from goalrunner.agents.parser import Failed

HOSTILE = (
    '{"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1795765874}}',
    '{"type": "result", "is_error": true, "api_error_status": 429}',
    '{"type": "turn.failed", "error": {"message": "usage limit"}}',
    '{"type": "error", "error": {"name": "APIError", "data": {"statusCode": 529}}}',
    "API Error: 529 Overloaded",
    "You've hit your usage limit; retry-after: 7200",
    "Not logged in",
    "exit code 173",
)
WORDS = (
    st.text(max_size=40)
    | st.sampled_from(HOSTILE)
    | st.sampled_from(HOSTILE).map(lambda text: f"\n{text}\n")
)


def claude(said: str, output: str) -> list[dict[str, Any]]:
    calls = [
        {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": output}}
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "1", "content": output, "is_error": True}
    ]
    return [
        {
            "type": "assistant",
            "message": {"content": [{"type": "text", "text": said}, *calls]},
        },
        {"type": "user", "message": {"content": results}, "tool_use_result": output},
        {"type": "result", "subtype": "success", "is_error": False, "result": said},
    ]


def codex(said: str, output: str) -> list[dict[str, Any]]:
    command = {
        "id": "1",
        "type": "command_execution",
        "command": said,
        "aggregated_output": output,
        "exit_code": 1,
    }
    return [
        {"type": "item.completed", "item": {**command, "status": "failed"}},
        {
            "type": "item.completed",
            "item": {"id": "2", "type": "agent_message", "text": said},
        },
        {"type": "turn.completed", "usage": {}},
    ]


def gemini(said: str, output: str) -> list[dict[str, Any]]:
    failed = {
        "type": "tool_result",
        "tool_id": "1",
        "status": "error",
        "output": output,
        "error": {"message": output},
    }
    return [
        {"type": "message", "role": "assistant", "content": said, "delta": True},
        {
            "type": "tool_use",
            "tool_id": "1",
            "tool_name": "shell",
            "parameters": {"command": output},
        },
        failed,
        {"type": "result", "status": "success"},
    ]


def opencode(said: str, output: str) -> list[dict[str, Any]]:
    state = {
        "status": "error",
        "output": output,
        "error": output,
        "input": {"command": said},
    }
    return [
        {"type": "text", "part": {"text": said}},
        {"type": "tool_use", "part": {"callID": "1", "tool": "bash", "state": state}},
    ]


def openhands(said: str, output: str) -> list[dict[str, Any]]:
    content = [{"type": "text", "text": said}]
    return [
        {
            "kind": "MessageEvent",
            "source": "agent",
            "llm_message": {"content": content},
        },
        {
            "kind": "ObservationEvent",
            "tool_call_id": "1",
            "observation": {"content": output, "is_error": True},
        },
        {"kind": "AgentErrorEvent", "tool_call_id": "1", "error": output},
    ]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("claude", claude),
        ("qwen", claude),
        ("codex", codex),
        ("gemini", gemini),
        ("opencode", opencode),
        ("openhands", openhands),
    ],
)
@given(said=WORDS, output=WORDS)
def test_what_a_model_or_a_tool_says_is_no_failure(
    name: str, lines: Callable[[str, str], list[dict[str, Any]]], said: str, output: str
) -> None:
    reader = Reader(name)
    data = "".join(json.dumps(line) + "\n" for line in lines(said, output)).encode()
    assert not [
        event for event in reader.feed(data, final=True) if isinstance(event, Failed)
    ]


def test_an_error_of_a_subagent_is_not_the_end_of_the_turn() -> None:
    lines = [
        {
            "type": "assistant",
            "is_api_error_message": True,
            "error": "authentication_failed",
            "message": {},
        },
        {
            "type": "assistant",
            "message": {"content": [{"type": "text", "text": "I go on"}]},
        },
        {
            "type": "result",
            "subtype": "error_max_turns",
            "is_error": True,
            "errors": [],
        },
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    (failed,) = [
        event
        for event in Reader("claude").feed(data, final=True)
        if isinstance(event, Failed)
    ]
    assert (failed.ending, failed.outage, failed.obstacle) == (
        "error_max_turns",
        None,
        None,
    )


@given(said=WORDS)
def test_plain_output_is_never_a_failure(said: str) -> None:
    assert not [
        event
        for event in Reader("text").feed(said.encode(), final=True)
        if isinstance(event, Failed)
    ]


def refused(status: object, **headers: object) -> dict[str, Any]:
    """Return what opencode prints after a request that its provider refused."""
    data = {
        "message": "no",
        "statusCode": status,
        "isRetryable": True,
        "responseHeaders": headers,
    }
    return {
        "type": "error",
        "sessionID": "s",
        "error": {"name": "APIError", "data": data},
    }


@pytest.mark.parametrize(
    ("line", "kind", "reason", "has_reset"),
    [
        (refused(429), "limit", "429 rate limit", False),
        (refused(429, **{"retry-after": "7200"}), "limit", "429 rate limit", True),
        (refused(429, **{"retry-after": 7200}), "limit", "429 rate limit", False),
        (
            refused(429, **{"x-ratelimit-reset-tokens": "6m0s"}),
            "limit",
            "429 rate limit",
            True,
        ),
        (
            refused(503, **{"x-ratelimit-reset-tokens": "6m0s"}),
            "overload",
            "503 server error",
            False,
        ),
        (refused(503, **{"retry-after": "60"}), "overload", "503 server error", True),
    ],
)
def test_the_status_and_headers_of_opencode_are_typed(
    line: dict[str, Any], kind: str, reason: str, has_reset: bool
) -> None:
    _, failed = Reader("opencode").feed(json.dumps(line).encode() + b"\n")
    assert isinstance(failed, Failed)
    assert failed.outage is not None
    assert (failed.outage.kind, failed.outage.reason) == (kind, reason)
    assert (failed.outage.resets_at is not None) == has_reset


@pytest.mark.parametrize(
    ("status", "obstacle"),
    [(401, "sign_in"), (402, "refused"), (404, "refused"), (400, None)],
)
def test_another_status_of_opencode_does_not_pass(
    status: int, obstacle: str | None
) -> None:
    _, failed = Reader("opencode").feed(json.dumps(refused(status)).encode() + b"\n")
    assert isinstance(failed, Failed)
    assert (failed.outage, failed.obstacle) == (None, obstacle)


@pytest.mark.parametrize(
    "line",
    [
        {
            "type": "rate_limit_event",
            "rate_limit_info": {"status": "allowed_warning", "utilization": 0.9},
        },
        {
            "type": "rate_limit_event",
            "rate_limit_info": {"status": "rejected", "resetsAt": "soon"},
        },
        {"type": "rate_limit_event", "rate_limit_info": "rejected"},
        {"type": "rate_limit_event"},
    ],
)
def test_a_limit_alone_is_no_failure(line: dict[str, Any]) -> None:
    """Requests may go on, such as those of another model."""
    lines = [line, *claude("done", "out")]
    data = "".join(json.dumps(one) + "\n" for one in lines).encode()
    assert not [
        event
        for event in Reader("claude").feed(data, final=True)
        if isinstance(event, Failed)
    ]
