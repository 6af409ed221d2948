"""Text is compared as a terminal shows it, without what copying changes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.judge.plain_text import (
    folded,
    readable,
    says_something,
    without_line_numbers,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[32m43 passed\x1b[0m in 1s", "43 passed in 1s"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07done", "done"),
        ("10%\r50%\r100%", "100%"),
        ("downloading\rdone", "done"),
        ("downloading\r\x1b[Kdone", "done"),
        ("downloading\x1b[2K\rdone", "done"),
        ("50%\r", "50%"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("\b\bx", "x"),
        ("abc\b\b", "abc"),
        ("a\x00b\x07c", "abc"),
        ("\x1b\x1b[0m[0m", "[0m"),
        ("tab\there", "tab\there"),
    ],
)
def test_a_terminal_would_show(text: str, shown: str) -> None:
    assert readable(text) == shown


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("“quoted” ‘so’ – and — dash", "\"quoted\" 'so' - and - dash"),
        ("a\u200bb\ufeffc\u00ad", "abc"),
        ("ｆｕｌｌ ①", "full 1"),
        ("e\u0301 = é", "é = é"),
        ("e\u200b\u0301", "é"),
        ("  a \t b\n\n c\u00a0d\u2028e ", "a b c d e"),
        ("✔\ufe0f ok…", "✔ ok..."),
    ],
)
def test_what_copying_changes_is_folded(text: str, plain: str) -> None:
    assert folded(text) == plain


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("     1\tprint(1)\n     2\tprint(2)", "print(1)\nprint(2)"),
        ("12: def f():", "def f():"),
        ("12|x = 1\n13 | y = 2", "x = 1\ny = 2"),
        ("   7→import os", "import os"),
        ("12:30:45 started", "12:30:45 started"),
        ("0: errors", "0: errors"),
        ("43 passed", "43 passed"),
        ("port 80: open", "port 80: open"),
    ],
)
def test_line_numbers_are_dropped_and_nothing_else(text: str, bare: str) -> None:
    assert without_line_numbers(text) == bare


def test_punctuation_says_nothing() -> None:
    assert not says_something(" ...!? {} ✓ —")
    assert says_something("... 0")
    assert says_something("好")


terminal_text = st.text(
    st.one_of(
        st.characters(codec="utf-8"),
        st.sampled_from("\x1b[]0;m2K\r\b\n\x07\x0e\x0f\x9b\x9d \u0301\u200be'´…"),
    ),
    max_size=80,
)


@given(terminal_text)
def test_folding_twice_changes_nothing(text: str) -> None:
    assert folded(folded(text)) == folded(text)


@given(terminal_text)
def test_nothing_that_moves_a_cursor_is_left(text: str) -> None:
    assert not set(readable(text)) & set("\x1b\b\r\x00\x07\x0e\x0f\x9b")


@pytest.mark.parametrize(
    "piece",
    [
        "progress 1%\r",
        "\x1b[32mok\x1b[0m\n",
        "x\b",
        "\x1b[2K",
        "\x1b]0;",
        "é \u200b",
        "\r\x1b[K",
        "  \n\t ",
    ],
)
def test_time_grows_with_length_alone(piece: str) -> None:
    def seconds(size: int) -> float:
        text = "y" * (size // 4) + piece * (size // len(piece))
        began = time.thread_time()
        folded(text)
        return time.thread_time() - began

    seconds(1_000)
    # Quadratic work would take some minutes here.
    assert seconds(1_000_000) < 5
