"""OpenAI chat messages in their three forms; what is none is named with file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner.core.chat_trail import trail_of
from goalrunner.core.errors import UsageError
from goalrunner.core.messages import KNOWN_BLOCKS
from goalrunner.core.observation import Claim, Observation
from goalrunner.transcripts import read_transcript

CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "Make the tests pass."},
    {
        "role": "assistant",
        "content": "I run them.\u2028Now.",
        "tool_calls": [
            {
                "id": "a",
                "function": {"name": "shell", "arguments": '{"command": "pytest -q"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "43 passed"},
]
NO_CHAT = f"not a chat message: it has no known role, or content that is neither text nor blocks ({KNOWN_BLOCKS})"
EMPTY = "  the transcript contains nothing that an agent did or said"


def refused(path: Path, text: str | bytes) -> str:
    """Return the error for an invalid file, without its path."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(UsageError) as caught:
        read_transcript(path)
    assert caught.value.hint
    assert caught.value.message.startswith(str(path))
    return caught.value.message.removeprefix(str(path))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(CHAT),
        json.dumps(CHAT, indent=2),
        json.dumps({"messages": CHAT, "model": "x"}, indent=2),
        "\n".join(json.dumps(message) for message in CHAT) + "\n",
        "\r\n\r\n".join(json.dumps(message, ensure_ascii=False) for message in CHAT),
        "\ufeff" + json.dumps(CHAT),
    ],
)
def test_the_forms_of_a_chat_give_one_trail(tmp_path: Path, text: str) -> None:
    path = tmp_path / "chat.json"
    path.write_text(text, encoding="utf-8")
    trail = read_transcript(path)
    claim, observation = trail.items
    assert isinstance(claim, Claim)
    assert trail.read(claim) == "I run them.\u2028Now."
    assert isinstance(observation, Observation)
    assert (observation.heading, observation.command) == (
        "[o1] shell, reported by the agent",
        "pytest -q",
    )
    assert trail.read(observation) == "43 passed"


def test_a_chat_in_memory_gives_the_same_evidence(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(CHAT))
    saved, given = read_transcript(path), trail_of(CHAT)
    plain = [
        item.model_copy(update={"reported_by": ""})
        if isinstance(item, Observation)
        else item
        for item in saved.items
    ]
    assert plain == list(given.items)
    assert [saved.read(item) for item in saved.items] == [
        given.read(item) for item in given.items
    ]


def test_one_message_alone_is_a_chat(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text('{"role": "assistant", "content": "Hello."}')
    (response,) = read_transcript(path, deliverable="response").items
    assert isinstance(response, Observation)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": the format of this transcript is not known"),
        ("just words", ": the format of this transcript is not known"),
        ("[]", EMPTY),
        ('{"messages": []}', EMPTY),
        ('[{"role": "user", "content": "Go."}]', EMPTY),
        ('{\n"model": "x"\n}', ": the format of this transcript is not known"),
        ('{\n"other": [],\n"messages": [3]\n}', f": record 1: {NO_CHAT}"),
        ('[{"role": "user"},', ":1  not valid JSON: Expecting value (column 19)"),
        (
            '{"role": "user"}\nno record',
            EMPTY
            + "; line 2 (not valid JSON: Expecting value (column 1)) is damaged; it was left out",
        ),
        ('{"role": "user"}\n\n[1]', f":3  {NO_CHAT}"),
        ('{"role": "user"}\n{"role": "judge"}', f":2  {NO_CHAT}"),
        ('[{"role": "user"}, {"role": ["a"]}]', f": record 2: {NO_CHAT}"),
        ('[{"role": "user", "content": 3}]', f": record 1: {NO_CHAT}"),
        (
            '{"messages": []}\n{"messages": []}',
            ": the format of this transcript is not known",
        ),
        ('{"role": "user", "content": [{"type": "riddle"}]}', f": record 1: {NO_CHAT}"),
        (
            '{"role": "tool", "content": ' + "[" * 500 + "]" * 500 + "}",
            f": record 1: {NO_CHAT}",
        ),
        ("[" * 100_000, "  the JSON is nested too deeply"),
    ],
)
def test_what_is_no_chat_is_refused_by_line(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    assert refused(tmp_path / "chat.json", text) == message


def test_the_format_is_named_with_an_error(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text("[]")
    with pytest.raises(UsageError) as caught:
        read_transcript(path)
    assert caught.value.hint.startswith("It was read as openai-chat (")
    assert caught.value.hint.endswith(
        ". goal status --list-formats lists the formats; --format NAME forces one."
    )


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError,
        match=r"absent\.json: cannot read the transcript: No such file or directory",
    ):
        read_transcript(tmp_path / "absent.json")
