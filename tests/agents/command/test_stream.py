"""Reading output: every rule finds what it names, and nothing that an agent prints makes the reader fail."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goalrunner.agents.stream import JsonStream, TextStream
from goalrunner.agents.stream_events import (
    Broke,
    Called,
    Happening,
    Noise,
    Piece,
    Reported,
    Returned,
    Said,
    SessionNamed,
)
from goalrunner.core.agent_preset import Preset, StreamRule
from tests.support.external import rules

CLAUDE = Preset(
    stream="json",
    rules=(
        StreamRule(
            kind="text",
            when={"type": "assistant"},
            each="message.content",
            where={"type": "text"},
            fields={"text": ("text",)},
        ),
        StreamRule(
            kind="call",
            when={"type": ("assistant", "partial")},
            each="message.content",
            where={"type": "tool_use"},
            fields={"id": ("id",), "tool": ("name",), "command": ("input.command", "input")},
        ),
        StreamRule(
            kind="usage",
            when={"type": "result"},
            fields={"input": ("usage.in",), "output": ("usage.out",), "cached": ("usage.read", "usage.written")},
        ),
        StreamRule(kind="usage", when={"type": "bill"}, fields={"cost": ("usd",)}),
        StreamRule(kind="error", when={"type": "result", "failed": True}, fields={"message": ("result",)}),
    ),
)
PLAIN = Preset(stream="json", rules=rules())


def read(preset: Preset, *lines: Any) -> list[Happening]:
    """The happenings of lines, given as values or as bytes."""
    stream = JsonStream(preset)
    data = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
    return [*stream.feed(data), *stream.end()]


def test_items_of_a_list_are_looked_at_one_by_one() -> None:
    blocks = [
        {"type": "text", "text": "hello"},
        {"type": "thinking", "text": "hidden"},
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}},
        {"type": "tool_use", "id": "u", "name": "Edit", "input": {"path": "a"}},
        7,
    ]
    assert read(CLAUDE, {"type": "assistant", "message": {"content": blocks}}) == [
        Said("hello"),
        Called("t", "Bash", "ls"),
        Called("u", "Edit", '{"path": "a"}'),
    ]


def test_a_session_may_be_named_in_words() -> None:
    preset = Preset(stream="json", session_after="Session: ", rules=rules())
    found = read(preset, b"Session: s-1 (kept)\n", b"Session:\n", b"a Session: s-2\n", {"Session": "s-3"})
    assert found == [SessionNamed("s-1"), Noise("Session:"), Noise("a Session: s-2")]
    assert read(PLAIN, b"Session: s-1\n") == [Noise("Session: s-1")]


def test_cached_tokens_are_added_and_dollars_that_another_line_tells_are_not_unknown() -> None:
    used = {"type": "result", "usage": {"in": 3, "out": 4, "read": 10, "written": 20}}
    assert read(CLAUDE, used, {"type": "bill", "usd": 0.5}) == [
        Reported(input=33, output=4, cost=0.0, dollars=False),
        Reported(cost=0.5, tokens=False),
    ]


@pytest.mark.parametrize("value", [-1, True, "12", None, 1e300, float("nan"), float("inf"), [3], 10**400])
def test_a_count_that_is_none_counts_as_nothing(value: object) -> None:
    (report,) = read(PLAIN, {"type": "usage", "input": value, "output": 2, "cost": value})
    assert report == Reported(input=0, output=2, cost=None)


def test_true_is_not_one() -> None:
    assert read(CLAUDE, {"type": "result", "failed": 1, "result": "x"}) == []
    assert read(CLAUDE, {"type": "result", "failed": True, "result": "x"}) == [Broke("x")]


def test_an_error_without_words_shows_its_line() -> None:
    assert read(PLAIN, {"type": "error"}) == [Broke('{"type": "error"}')]


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
def test_what_is_no_object_is_noise(line: bytes, said: str) -> None:
    assert read(PLAIN, line, {"type": "text", "text": "next"}) == [Noise(said), Said("next")]


def test_padding_and_a_byte_order_mark_are_passed_over() -> None:
    assert read(PLAIN, b'\0\0\xef\xbb\xbf{"type": "text", "text": "a\0b"}\r\n', b"\n", b"\0\n") == [Said("a\0b")]


def test_half_a_character_can_be_written() -> None:
    (said,) = read(PLAIN, b'{"type": "text", "text": "\\ud83d"}\n')
    assert said == Said("?")


def test_the_last_line_needs_no_newline() -> None:
    assert read(PLAIN, b'{"type": "session", "id": "s"}') == [SessionNamed("s")]


def test_a_line_that_is_too_long_is_passed_over_and_the_next_one_read() -> None:
    stream = JsonStream(PLAIN)
    stream._lines.longest = 1_000
    seen = [*stream.feed(b"x" * 900), *stream.feed(b"x" * 900), *stream.feed(b'x\n{"type": "text", "text": "a"}\n')]
    assert [type(one) for one in seen] == [Noise, Said]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
KINDS = ("session", "text", "delta", "call", "result", "usage", "error")
FIELDS = ("id", "text", "tool", "command", "output", "exit_code", "failed", "message", "input", "cached", "cost")
LINE = st.builds(
    lambda kind, fields: json.dumps({"type": kind, **fields}).encode() + b"\n",
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6),
)


@settings(deadline=None)
@given(st.lists(LINE | st.binary(max_size=60), max_size=12), st.integers(1, 50))
def test_nothing_makes_the_reader_fail_however_it_is_cut(lines: list[bytes], step: int) -> None:
    data = b"".join(lines)
    whole = read(PLAIN, data)
    stream = JsonStream(PLAIN)
    cut = [one for at in range(0, len(data), step) for one in stream.feed(data[at : at + step])]
    assert repr([*cut, *stream.end()]) == repr(whole)
    for happening in whole:
        repr(happening).encode()
        if isinstance(happening, Returned):
            assert happening.exit_code is None or type(happening.exit_code) is int
        if isinstance(happening, Reported):
            assert happening.input >= 0
            assert happening.cost is None or happening.cost >= 0


@given(st.binary(max_size=200), st.integers(1, 9))
def test_plain_text_is_whole_however_it_is_cut(data: bytes, step: int) -> None:
    stream = TextStream()
    seen = [one for at in range(0, len(data), step) for one in stream.feed(data[at : at + step])]
    pieces = [one.text for one in [*seen, *stream.end()] if isinstance(one, Piece)]
    assert "".join(pieces) == data.decode("utf-8", "replace")
