"""Messages are sent in the form that providers accept, and stay unchanged themselves."""

from __future__ import annotations

from typing import Any

import pytest

from goalrunner.llm.request_form import sendable
from goalrunner.llm.requests import object_arguments

CALLS = [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]


def _said(content: object, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        ('{"a"', '{"malformed_arguments": "{\\"a\\""}'),
        ("[1]", '{"malformed_arguments": "[1]"}'),
    ],
)
def test_arguments_go_out_as_a_json_object(arguments: str, sent: str) -> None:
    assert object_arguments(arguments) == sent


def test_content_is_never_none_and_never_nothing_at_all() -> None:
    given = [
        _said(None, tool_calls=CALLS),
        _said(""),
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
    ]
    before = [dict(message) for message in given]
    assert sendable(given) == [
        _said("", tool_calls=CALLS),
        _said("[no text]"),
        given[2],
    ]
    assert given == before


def test_empty_content_beside_tool_calls_can_be_left_out() -> None:
    user = {"role": "user", "content": ""}
    sent = sendable(
        [user, _said("", tool_calls=CALLS), _said("words", tool_calls=CALLS)],
        keep_empty=False,
    )
    assert [message.get("content", "left out") for message in sent] == [
        "",
        "left out",
        "words",
    ]
