"""Lines of output, and JSON-RPC messages in them, in arbitrary bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from goalrunner.agents.json_lines import Lines, object_in

OBJECTS = st.dictionaries(
    st.text(), st.integers() | st.text() | st.none() | st.lists(st.booleans())
)


@given(
    st.lists(OBJECTS),
    st.binary(max_size=20).map(lambda noise: noise.replace(b"\n", b"")),
    st.integers(1, 50),
)
def test_every_message_is_found_however_the_stream_is_cut(
    objects: list[dict[str, Any]], noise: bytes, size: int
) -> None:
    stream = b"".join(
        b"#" + noise + b"\n" + json.dumps(one).encode() + b"\n" for one in objects
    )
    lines = Lines()

    pieces = (stream[start : start + size] for start in range(0, len(stream), size))
    found = [object_in(line) for piece in pieces for line in lines.feed(piece)]

    assert found == [
        one for pair in zip([None] * len(objects), objects, strict=True) for one in pair
    ]


def test_a_line_that_is_too_long_is_left_out_and_the_next_is_not() -> None:
    lines = Lines(longest=20)

    assert list(lines.feed(b"x" * 100 + b"\nb\n")) == ["b"]
    assert list(lines.feed(b"x" * 15)) == []
    assert list(lines.feed(b"x" * 15 + b"\nc\n")) == ["c"]


def test_what_is_too_deep_or_no_object_is_no_message() -> None:
    assert object_in("[" * 100_000) is None
    assert object_in("[1]") is None
    assert object_in('{"n": ' + "9" * 10_000 + "}") is None
