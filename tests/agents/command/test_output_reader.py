"""Reading output: nothing that an agent prints makes a reader fail, however it is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goalrunner.agents import output_reader
from goalrunner.agents.external_agents import BUILT_IN
from goalrunner.agents.output_reader import Reader
from goalrunner.agents.parser import (
    CallFinished,
    CallStarted,
    Failed,
    Noise,
    SessionStarted,
    StreamEvent,
    Text,
    TextDelta,
    TurnEnded,
    UsageReported,
)
from goalrunner.core.errors import AgentError, UsageError
from tests.fixtures.plain_agent.plain_agent import Broken


def read(name: str, *lines: Any) -> list[StreamEvent]:
    """Return the events of lines, given as values or as bytes."""
    reader = Reader(name)
    data = b"".join(
        line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
        for line in lines
    )
    return [*reader.feed(data), *reader.feed(b"", final=True)]


def test_each_content_block_is_an_event() -> None:
    blocks = [
        {"type": "text", "text": "hello"},
        {"type": "thinking", "text": "hidden"},
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "u", "name": "Edit", "input": {"path": "a"}},
        7,
    ]
    assert read("claude", {"type": "assistant", "message": {"content": blocks}}) == [
        Text("hello"),
        CallStarted("t", "Bash", "ls"),
        CallStarted("u", "Edit", '{"path": "a"}'),
    ]


def test_a_session_may_be_named_between_the_lines_of_json() -> None:
    lines = (
        b"Conversation ID: s-1 (kept)\n",
        b"Conversation ID:\n",
        b"a Conversation ID: s-2\n",
    )
    assert read("openhands", *lines, {"Conversation ID": "s-3"}) == [
        SessionStarted("s-1"),
        Noise("Conversation ID:"),
        Noise("a Conversation ID: s-2"),
    ]
    assert read("plain", b"Session: s-1\n") == [Noise("Session: s-1")]


def test_cached_tokens_are_added() -> None:
    usage = {
        "input_tokens": 3,
        "output_tokens": 4,
        "cache_read_input_tokens": 10,
        "cache_creation_input_tokens": 20,
    }
    assert read(
        "claude", {"type": "result", "usage": usage, "total_cost_usd": 0.5}
    ) == [
        UsageReported(input=33, output=4, cost=0.5),
        TurnEnded(),
    ]


@pytest.mark.parametrize(
    "value", [-1, True, "12", None, 1e300, float("nan"), float("inf"), [3], 10**400]
)
def test_an_implausible_count_is_zero(value: object) -> None:
    (report,) = read(
        "plain", {"type": "usage", "input": value, "output": 2, "cost": value}
    )
    assert report == UsageReported(input=0, output=2, cost=None)


def test_a_flag_must_be_true() -> None:
    assert read("claude", {"type": "result", "is_error": 1}) == [TurnEnded()]
    assert read("claude", {"type": "result", "is_error": True, "result": "x"}) == [
        Failed("x")
    ]


def test_an_error_without_a_message_shows_its_line() -> None:
    assert read("plain", {"type": "error"}) == [Failed('{"type": "error"}')]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"Welcome to agent 1.0\n", "Welcome to agent 1.0"),
        (b'{"type": "text", "text": "cut\n', '{"type": "text", "text": "cut'),
        (b"[" * 100_000 + b"\n", "[" * 2_000),
        (b"\xff\xfe\n", "\ufffd\ufffd"),
        (b'["a", "list"]\n', '["a", "list"]'),
        (b"1" * 5_000 + b"\n", "1" * 2_000),
    ],
)
def test_a_line_that_is_no_object_is_noise(line: bytes, said: str) -> None:
    assert read("plain", line, {"type": "text", "text": "next"}) == [
        Noise(said),
        Text("next"),
    ]


def test_padding_and_a_byte_order_mark_are_ignored() -> None:
    assert read(
        "plain", b'\0\0\xef\xbb\xbf{"type": "text", "text": "a\0b"}\r\n', b"\n", b"\0\n"
    ) == [Text("a\0b")]


def test_half_a_character_can_be_written() -> None:
    assert read("plain", b'{"type": "text", "text": "\\ud83d"}\n') == [Text("?")]


def test_the_last_line_needs_no_newline() -> None:
    assert read("plain", b'{"type": "session", "id": "s"}') == [SessionStarted("s")]


def test_a_parser_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_reader, "parser_class", lambda _: Broken)
    with pytest.raises(
        AgentError, match=r"the parser Broken failed: KeyError\('missing'\)"
    ):
        read("broken", {})


def test_a_parser_that_is_not_installed_is_named() -> None:
    with pytest.raises(UsageError, match='no parser "absent" is installed'):
        Reader("absent")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
WORDS = (
    *(
        "type",
        "kind",
        "subtype",
        "message",
        "content",
        "item",
        "part",
        "state",
        "usage",
        "id",
        "text",
        "status",
    ),
    *(
        "error",
        "role",
        "delta",
        "thought",
        "observation",
        "exit_code",
        "input",
        "output",
        "cost",
        "is_error",
    ),
)
TYPES = (
    *(
        "session",
        "text",
        "delta",
        "call",
        "result",
        "usage",
        "error",
        "assistant",
        "user",
        "system",
        "init",
    ),
    *(
        "message",
        "tool_use",
        "tool_result",
        "item.started",
        "item.completed",
        "command_execution",
        "turn.completed",
    ),
    *(
        "step_finish",
        "MessageEvent",
        "ActionEvent",
        "ObservationEvent",
        "AgentErrorEvent",
        "ConversationErrorEvent",
    ),
)
NESTED = st.recursive(
    JSON | st.sampled_from(TYPES),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5)
    ),
    max_leaves=12,
)
LINE = st.builds(
    lambda kind, fields: (
        json.dumps({"type": kind, "kind": kind, **fields}).encode() + b"\n"
    ),
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(WORDS), NESTED, max_size=6),
)


@pytest.mark.parametrize("name", [*BUILT_IN, "plain"])
@settings(deadline=None)
@given(st.lists(LINE | st.binary(max_size=60), max_size=12), st.integers(1, 50))
def test_nothing_makes_a_parser_fail_however_it_is_cut(
    name: str, lines: list[bytes], step: int
) -> None:
    data = b"".join(lines)
    whole = read(name, data)
    reader = Reader(name)
    cut = [
        one
        for at in range(0, len(data), step)
        for one in reader.feed(data[at : at + step])
    ]
    assert repr([*cut, *reader.feed(b"", final=True)]) == repr(whole)
    for event in whole:
        repr(event).encode()
        if isinstance(event, CallFinished):
            assert event.exit_code is None or type(event.exit_code) is int
        if isinstance(event, UsageReported):
            assert event.input >= 0
            assert event.cost is None or event.cost >= 0


@given(st.binary(max_size=200), st.integers(1, 9))
def test_plain_text_is_whole_however_it_is_cut(data: bytes, step: int) -> None:
    reader = Reader("text")
    seen = [
        one
        for at in range(0, len(data), step)
        for one in reader.feed(data[at : at + step])
    ]
    pieces = [
        one.text
        for one in [*seen, *reader.feed(b"", final=True)]
        if isinstance(one, TextDelta)
    ]
    assert "".join(pieces) == data.decode("utf-8", "replace")
