"""The estimate of tokens adds up, and cuts by it never exceed the room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.judge.prices import TOKEN, beginning, ending, price_in_bytes
from tests.support.trails import tokens

texts = st.text(
    st.one_of(st.characters(), st.sampled_from("ab C1.\n é好🎉\ud800")), max_size=120
)


@given(texts, texts)
def test_prices_add_up(one: str, other: str) -> None:
    assert price_in_bytes(one + other) == price_in_bytes(one) + price_in_bytes(other)


@given(text=texts, room=st.integers(-50, 2_000))
def test_a_beginning_is_the_longest_that_fits(text: str, room: int) -> None:
    cut = beginning(text, room)
    assert text.startswith(cut)
    assert cut == "" or price_in_bytes(cut) <= room
    assert len(cut) == len(text) or price_in_bytes(text[: len(cut) + 1]) > room


@given(text=texts, room=st.integers(-50, 2_000))
def test_an_ending_is_the_longest_that_fits(text: str, room: int) -> None:
    cut = ending(text, room)
    assert text.endswith(cut)
    assert cut == "" or price_in_bytes(cut) <= room
    assert (
        len(cut) == len(text) or price_in_bytes(text[len(text) - len(cut) - 1 :]) > room
    )


@pytest.mark.parametrize(
    ("text", "least"),
    [
        # What the tokenizer of GPT-4o counts.
        (
            "The validator is green, and the judge has read every line of its output.",
            15,
        ),
        ("def parse(text: str) -> Document:\n    return Document(text.strip())\n", 16),
        ("tests/judge/test_reply.py::test_every_type_is_exact PASSED [ 12%]\n", 19),
        ("所有的测试都通过了，没有失败。", 10),
        ("Все тесты прошли успешно.", 7),
        ("✅🎉🚀", 4),
    ],
)
def test_the_estimate_is_no_lower_than_a_tokenizers_count(
    text: str, least: int
) -> None:
    assert least <= tokens(text) <= 3.5 * least


def test_a_token_is_rounded_up() -> None:
    assert tokens("") == 0
    assert tokens("a") == 1
    assert tokens("é" * TOKEN) == 2
