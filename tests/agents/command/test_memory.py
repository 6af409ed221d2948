"""The memory that a long line takes, and large outputs."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from goalrunner.agents.external_agents import parser_class
from goalrunner.agents.output_reader import JsonReader, Lines

SIZE = 8_000_000
PIECE = 1 << 16


def lines(number: int) -> Iterator[bytes]:
    """Long lines, in the pieces in which a program's output is read."""
    for _ in range(number):
        yield b'{"type": "result", "id": "c", "tool": "sh", "output": "'
        yield from (b"x" * PIECE for _ in range(SIZE // PIECE))
        yield b'"}\n'


def command() -> Callable[[bytes], object]:
    stream = JsonReader(parser_class("plain")())

    def take(piece: bytes) -> None:
        for happening in stream.feed(piece):
            assert happening
            del happening

    return take


def acp() -> Callable[[bytes], object]:
    messages = Lines()
    return lambda piece: len(messages.objects(piece))


@pytest.mark.parametrize("reader", [command, acp])
def test_a_long_line_is_held_twice_at_most_and_the_one_before_it_not_at_all(
    reader: Callable[[], Callable[[bytes], object]],
) -> None:
    """Twice: as bytes and as text, or as text and as what is read from it."""
    take = reader()
    for piece in lines(1):  # what is only made once
        take(piece)
    tracemalloc.start()
    try:
        for piece in lines(3):
            take(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2.4 * SIZE


def test_a_line_of_json_is_read_whatever_its_bytes() -> None:
    told = json.dumps({"type": "text", "text": "é\ud83d"}).encode() + b"\n"
    stream = JsonReader(parser_class("plain")())
    assert [repr(one) for one in stream.feed(told)] == ["Text(text='é?')"]
