"""Texts without the punctuation around them, in linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.judge.text import from_first_word, trimmed


@given(st.text(max_size=50))
def test_both_ends_begin_with_a_word(text: str) -> None:
    assert trimmed(text) == re.sub(r"\A\W+|\W+\Z", "", text)
    assert from_first_word(text) == re.sub(r"\A\W+", "", text)


@pytest.mark.timeout(20)
def test_time_grows_with_length_alone() -> None:
    assert trimmed("-" * 1_000_000 + "x" + "-" * 1_000_000) == "x"
