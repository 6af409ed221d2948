"""The text of tool messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.agents.context_window import head_and_tail, shown
from goalrunner.core.agent_ports import Recorded
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
        (
            b"\x7fELF\0\1\2",
            "[o1] (exit 0)\n[binary output, 7 bytes, beginning with 7f 45 4c 46 00 01 02; the whole output is kept]",
        ),
    ],
)
def test_an_output_is_shown_under_its_facts(output: bytes, text: str) -> None:
    assert shown(recorded(output, "exit 0")) == text


@given(st.text(max_size=400), st.integers(10, 200))
def test_the_ends_stay_and_the_mark_counts_the_rest(text: str, limit: int) -> None:
    cut = head_and_tail(text, limit, "; kept")
    half = limit // 2
    if len(text) <= limit:
        assert cut == text
    else:
        missing = len(text) - 2 * half
        assert cut == f"{text[:half]}\n[... {missing:,} characters omitted; kept ...]\n{text[-half:]}"
