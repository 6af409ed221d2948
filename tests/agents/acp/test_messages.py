"""JSON-RPC messages in arbitrary bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from goalrunner.agents.output_reader import Lines
from goalrunner.agents.parser import object_in

OBJECTS = st.dictionaries(st.text(), st.integers() | st.text() | st.none() | st.lists(st.booleans()))


@given(st.lists(st.binary()))
def test_no_bytes_do_harm(pieces: list[bytes]) -> None:
    messages = Lines()

    for piece in pieces:
        assert all(isinstance(message, dict) for message in messages.objects(piece))


@given(st.lists(OBJECTS), st.binary(max_size=20).map(lambda noise: noise.replace(b"\n", b"")), st.integers(1, 50))
def test_every_message_is_found_however_the_stream_is_cut(
    objects: list[dict[str, Any]], noise: bytes, size: int
) -> None:
    stream = b"".join(b"#" + noise + b"\n" + json.dumps(one).encode() + b"\n" for one in objects)
    messages = Lines()

    found = [one for start in range(0, len(stream), size) for one in messages.objects(stream[start : start + size])]

    assert found == objects


def test_a_line_that_is_too_long_is_left_out_and_the_next_is_not() -> None:
    messages = Lines(longest=20)

    assert messages.objects(b'{"a": "' + b"x" * 100 + b'"}\n{"b": 1}\n') == [{"b": 1}]
    assert messages.objects(b"x" * 15) == []
    assert messages.objects(b"x" * 15 + b'\n{"c": 1}\n') == [{"c": 1}]


def test_what_is_too_deep_or_no_object_is_no_message() -> None:
    assert object_in("[" * 100_000) is None
    assert object_in("[1]") is None
    assert object_in(None) is None
    assert object_in('{"n": ' + "9" * 10_000 + "}") is None
