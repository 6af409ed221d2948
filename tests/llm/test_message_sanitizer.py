"""Messages are sent in the form that providers accept, and stay unchanged themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.llm.provider import sanitize_messages


def _said(arguments: object) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": arguments}}],
    }


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ('{"a"', '{"malformed_arguments": "{\\"a\\""}'),
        ("[1]", '{"malformed_arguments": "[1]"}'),
        ({"a": 1}, '{"a": 1}'),
        (None, "{}"),
    ],
)
def test_arguments_go_out_as_a_json_object(arguments: object, sent: str) -> None:
    (message,) = sanitize_messages([_said(arguments)])
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": sent}
    assert message["content"] == ""


@given(st.text(st.characters()), st.text(st.characters()))
def test_every_message_can_be_sent(content: str, arguments: str) -> None:
    kept = {**_said(arguments), "content": content}
    before = json.dumps(kept)
    (message,) = sanitize_messages([kept])
    json.dumps(message, ensure_ascii=False).encode()
    assert isinstance(json.loads(message["tool_calls"][0]["function"]["arguments"]), dict)
    assert json.dumps(kept) == before


def test_blocks_of_content_are_left_alone() -> None:
    blocks = [{"type": "text", "text": "x"}]
    assert sanitize_messages([{"role": "user", "content": blocks}]) == [{"role": "user", "content": blocks}]


def test_empty_content_beside_tool_calls_can_be_left_out() -> None:
    user = {"role": "user", "content": ""}
    sent = sanitize_messages([user, _said("{}"), {**_said("{}"), "content": "words"}], keep_empty=False)
    assert [message.get("content", "left out") for message in sent] == ["", "left out", "words"]
