"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.goalfile import parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86400), ("500ms", 0.5), ("1h30m", 5400), ("1.5h", 5400),
        ("1h 30m 5s", 5405), (" 2 h ", 7200), ("0s", 0), ("1d2h3m4s5ms", 93784.005), ("90m", 5400),
    ],
)  # fmt: skip
def test_units_add_up(written: str, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written",
    [
        "soon",
        "",
        " ",
        "90",
        "1.5",
        "-5s",
        "+5s",
        "5 minutes",
        "30M",
        "1m1h",
        "1s1s",
        "s",
        ".5s",
        "1.s",
        "1e3s",
        "٣s",
        "5s;",
        "inf",
        "nan",
    ],
)
def test_anything_else_is_no_duration(written: str) -> None:
    assert parse_duration(written) is None


@given(st.text(alphabet="0123456789.hmsd -", max_size=12))
def test_any_text_is_a_duration_of_at_least_zero_or_none(written: str) -> None:
    seconds = parse_duration(written)
    assert seconds is None or seconds >= 0
