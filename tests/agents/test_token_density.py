"""When a chat is truncated, and to which length."""

from __future__ import annotations

import pytest

from goalrunner.agents.context_window import TokenDensity


def test_nothing_is_known_before_the_provider_has_counted() -> None:
    gauge = TokenDensity()
    assert not gauge.is_known
    assert gauge.target(10**9, 1_000) is None


def test_a_short_chat_or_one_that_was_not_counted_tells_nothing() -> None:
    gauge = TokenDensity()
    gauge.measure(1_000, 400)
    gauge.measure(50_000, 0)
    assert not gauge.is_known


@pytest.mark.parametrize(
    ("characters", "window", "target"),
    [
        (10_000, 8_000, None),  # 2,500 tokens of the 6,000 that an answer leaves
        (21_600, 8_000, None),  # nine tenths of them, to the token
        (21_604, 8_000, 14_400),
        (400_000, 100_000, 220_800),  # a large window leaves 8,000 for the answer
    ],
)
def test_a_full_window_is_shortened_well_below_its_limit(characters: int, window: int, target: int | None) -> None:
    gauge = TokenDensity()
    gauge.measure(4_000, 1_000)
    assert gauge.target(characters, window) == target


def test_what_a_provider_counts_is_believed_within_reason() -> None:
    gauge = TokenDensity()
    gauge.measure(2_000, 10**9)
    assert gauge.target(10_000, 8_000) == 1_800
