"""The text of tool messages, and the truncation of a chat: the order, the protected messages, and that it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goalrunner.agents.model_chat import shorten, size
from goalrunner.agents.toolbox import tool_message_text
from goalrunner.core.agent_ports import Recorded
from goalrunner.core.errors import shortened
from goalrunner.core.observation import Observation


def recorded(output: bytes, *facts: str) -> Recorded:
    return Recorded(Observation(id="o1", source="shell", facts=facts, round=1), output)


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"hello\n", "[o1] (exit 0)\nhello\n"),
        (b"", "[o1] (exit 0)\n[no output]"),
        (b"\x1b[31mred\x1b[0m\n", "[o1] (exit 0)\nred\n"),
        (b"caf\xe9\n", "[o1] (exit 0)\ncaf�\n"),
        (b"a\x07b\n", "[o1] (exit 0)\na�b\n"),
    ],
)
def test_an_output_is_shown_under_its_facts(output: bytes, text: str) -> None:
    assert tool_message_text(recorded(output, "exit 0")) == text


@given(st.text(max_size=400), st.integers(10, 200))
def test_the_ends_stay_and_the_mark_counts_the_rest(text: str, limit: int) -> None:
    cut = shortened(text, limit, "; kept")
    half = limit // 2
    if len(text) <= limit:
        assert cut == text
    else:
        missing = len(text) - 2 * half
        assert (
            cut
            == f"{text[:half]}\n[... {missing:,} characters left out; kept ...]\n{text[-half:]}"
        )


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def step(
    identifier: str, arguments: dict[str, Any], output: str, text: str = ""
) -> list[dict[str, Any]]:
    function = {"name": "shell", "arguments": json.dumps(arguments)}
    calls = [{"id": identifier, "type": "function", "function": function}]
    return [
        {"role": "assistant", "content": text, "tool_calls": calls},
        {"role": "tool", "tool_call_id": identifier, "content": output},
    ]


def test_the_oldest_tool_output_goes_first() -> None:
    chat = [
        user("o" * 5_000),
        *step("a", {}, "1" * 5_000),
        *step("b", {}, "2" * 5_000),
        *step("c", {}, "3" * 5_000),
    ]
    shorter = shorten(chat, size(*chat) - 3_000, {0})
    assert (
        shorter[2]["content"]
        == f"{'1' * 500}\n[... 4,000 characters left out to fit the context window ...]\n{'1' * 500}"
    )
    assert [shorter[at] for at in (0, 1, 3, 4, 5, 6)] == [
        chat[at] for at in (0, 1, 3, 4, 5, 6)
    ]


def test_long_arguments_are_cut_and_stay_json() -> None:
    chat = [
        user("o"),
        *step("a", {"path": "x", "content": "c" * 9_000}, "ok"),
        *step("b", {}, ""),
    ]
    shorter = shorten(chat, 0, {0})
    arguments = json.loads(shorter[1]["tool_calls"][0]["function"]["arguments"])
    assert arguments["path"] == "x"
    assert len(arguments["content"]) < 300


def test_protected_messages_stay() -> None:
    chat = [user("a" * 3_000), user("b" * 3_000), user("c" * 3_000)]
    shorter = shorten(chat, 0, {0, 2})
    assert (shorter[0], shorter[2]) == (chat[0], chat[2])
    assert len(shorter[1]["content"]) < 300


def test_nothing_left_to_shorten_is_said() -> None:
    chat = [{"role": "system", "content": "s" * 9_000}, user("o" * 9_000)]
    assert shorten(chat, 10, {1}) == chat


MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.text(max_size=3_000)),
        st.builds(
            lambda text: {"role": "assistant", "content": text}, st.text(max_size=3_000)
        ),
        st.builds(
            lambda text: {"role": "tool", "tool_call_id": "x", "content": text},
            st.text(max_size=3_000),
        ),
    ),
    max_size=8,
)


@given(MESSAGES, st.integers(0, 5_000), st.sets(st.integers(0, 7), max_size=3))
@settings(deadline=None)
def test_shortening_keeps_roles_and_the_protected_and_ends(
    chat: list[dict[str, Any]], target: int, protected: set[int]
) -> None:
    before = [dict(message) for message in chat]
    rounds = 0
    current, last_size = chat, size(*chat) + 1
    while target < size(*current) < last_size:
        last_size = size(*current)
        current = shorten(current, target, protected)
        rounds += 1
        assert rounds < 20
        assert [message["role"] for message in current] == [
            message["role"] for message in before
        ]
        assert all(current[at] == before[at] for at in protected if at < len(before))
    assert chat == before
