"""The format of recorded replies, and the errors for invalid lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.errors import GoalError
from goalrunner.llm import LLM
from goalrunner.llm.scripted import read_script


def test_every_key_is_read(tmp_path: Path) -> None:
    line = {
        "account": "judge",
        "text": "zwölf\u2028",
        "tool_calls": [
            {"name": "shell", "arguments": {"command": "ls"}},
            {"name": "x", "arguments": "{raw", "id": "7"},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 2, "cost_usd": None},
        "delay": 0.5,
        "finish_reason": "length",
        "error": {"status": 429, "message": "slow", "retry_after": 2},
    }
    path = tmp_path / "replies.jsonl"
    path.write_text(
        "\n" + json.dumps(line, ensure_ascii=False) + "\n\n", encoding="utf-8"
    )
    (reply,) = read_script(path)
    assert (
        reply.usage.input_tokens,
        reply.usage.output_tokens,
        reply.usage.cost_usd,
    ) == (3, 2, None)
    assert reply.model_dump(mode="json", exclude={"usage"}) == {
        **{key: value for key, value in line.items() if key != "usage"},
        "tool_calls": [
            {"name": "shell", "arguments": {"command": "ls"}, "id": ""},
            {"name": "x", "arguments": "{raw", "id": "7"},
        ],
        "error": {
            "status": 429,
            "message": "slow",
            "retry_after": 2.0,
            "cut": False,
            "timeout": False,
        },
    }
    assert [call.text for call in reply.tool_calls] == ['{"command": "ls"}', "{raw"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"txet": "hi"}', "txet: Extra inputs are not permitted"),
        (
            '{"text": "hi"',
            "Invalid JSON: EOF while parsing an object at line 1 column 13",
        ),
        ('{"text": 5}', "text: Input should be a valid string"),
        ('{"tool_calls": [{"arguments": {}}]}', "tool_calls.0.name: Field required"),
        (
            '{"account": "referee"}',
            "account: Input should be 'agent', 'judge' or 'critic'",
        ),
        (
            '{"error": {"status": 200}}',
            "error.status: Input should be greater than or equal to 400",
        ),
        ("[]", "Input should be an object"),
    ],
)
def test_an_invalid_line_is_reported_when_the_model_is_made(
    tmp_path: Path, line: str, said: str
) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(GoalError) as raised:
        LLM(f"scripted/{path}")
    assert raised.value.message == f"{path}:2: {said}"
    assert raised.value.hint == (
        "Each line is one JSON object; its keys: account, text, tool_calls, usage, finish_reason, delay, error."
    )


def test_a_recording_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GoalError) as raised:
        LLM(f"scripted/{tmp_path / 'gone.jsonl'}")
    assert (
        raised.value.message
        == f"the recording {tmp_path / 'gone.jsonl'} cannot be read: No such file or directory"
    )


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_give_replies_or_a_named_line(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("script") / "replies.jsonl"
    path.write_bytes(data)
    message = _outcome(path)
    assert message == "" or message.startswith(f"{path}:")


def _outcome(path: Path) -> str:
    try:
        read_script(path)
    except GoalError as error:
        return error.message
    return ""
