from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from goalrunner.core.outcome import Usage
from goalrunner.reports import figures

NOW = datetime.fromisoformat("2026-11-21T10:00:00+00:00")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0.0 s"),
        (0.94, "0.9 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (192.4, "3 min 12 s"),
        (3_600, "1 h"),
        (7_530, "2 h 5 min"),
        (-1, "0.0 s"),
    ],
)
def test_a_duration_is_said_in_the_units_that_matter(seconds: float, said: str) -> None:
    assert figures.elapsed(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.5, "0.5 s"),
        (45, "45 s"),
        (90, "1 min 30 s"),
        (1_800, "30 min"),
        (7_200.0, "2 h"),
        (100.5, "1 min 40 s"),
    ],
)
def test_a_limit_is_said_without_empty_parts(seconds: float, said: str) -> None:
    assert figures.span(seconds) == said


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (0.21, "$0.21"),
        (0, "$0.00"),
        (0.0043, "$0.0043"),
        (0.00001, "<$0.0001"),
        (1234.5, "$1,234.50"),
        (None, "no price"),
    ],
)
def test_dollars_are_never_rounded_to_nothing_and_an_unknown_price_is_said(
    amount: float | None, said: str
) -> None:
    assert figures.dollars(amount) == said


def test_counts_have_their_noun() -> None:
    assert figures.count(1, "round") == "1 round"
    assert figures.count(41_210, "token") == "41,210 tokens"
    assert figures.count(2, "criterion", "criteria") == "2 criteria"


def test_a_score_is_cut_so_that_only_one_is_one() -> None:
    assert [figures.score(value) for value in (0.62, 0.29, 0.999, 1.0)] == [
        "0.62",
        "0.29",
        "0.99",
        "1.00",
    ]


def test_a_share_is_in_percent() -> None:
    assert [figures.share(part, 100) for part in (6, 0.2, 0)] == ["6 %", "<1 %", "0 %"]
    assert figures.share(1, 0) == ""


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (0, "now"),
        (12, "12 s ago"),
        (200, "3 min ago"),
        (7_300, "2 h ago"),
        (86_500, "1 day ago"),
        (200_000, "2 days ago"),
    ],
)
def test_an_age_is_said_roughly(ago: int, said: str) -> None:
    assert figures.age((NOW - timedelta(seconds=ago)).isoformat(), NOW) == said


@pytest.mark.parametrize("when", ["", "soon", "2026-11-21T10:00:00"])
def test_a_time_that_cannot_be_compared_has_no_age(when: str) -> None:
    assert figures.age(when, NOW) == ""


def test_a_moment_is_said_in_utc() -> None:
    assert figures.moment("2026-11-21T11:00:00.123+01:00") == "2026-11-21 10:00:00 UTC"
    assert figures.moment("soon") == "soon"


def test_limits_name_what_is_not_limited() -> None:
    assert (
        figures.limits({"max_iterations": 10, "timeout": 1_800, "tokens": None})
        == "10 rounds · 30 min · no budget"
    )
    assert (
        figures.limits({"max_iterations": 1, "tokens": 200_000, "cost_usd": 2.5})
        == "1 round · no timeout · 200,000 tokens · $2.50"
    )
    assert (
        figures.limits({"timeout": 60}, "default")
        == "no round limit · 1 min (default) · no budget"
    )
    assert (
        figures.limits({}, "default")
        == figures.limits({})
        == "no round limit · no timeout · no budget"
    )


@pytest.mark.parametrize(
    ("usage", "tokens", "dollars"),
    [
        (Usage.unknown(), "tokens unknown", "cost unknown"),
        (Usage(), "0 tokens", "$0.00"),
        (Usage(input_tokens=1_500, cost_usd=None, calls=1), "1,500 tokens", "no price"),
        (Usage(cost_usd=0.5, calls=1, uncounted_calls=1), "tokens unknown", "$0.50"),
        (
            Usage(input_tokens=1_500, cost_usd=0.5, calls=1) + Usage.unknown(),
            "at least 1,500 tokens",
            "at least $0.50",
        ),
        (
            Usage(input_tokens=1_500, cost_usd=None, estimated_tokens=500)
            + Usage.unknown(),
            "at least 1,500 tokens, about 500 estimated",
            "cost unknown",
        ),
    ],
)
def test_usage_that_was_not_counted_is_unknown_and_not_zero(
    usage: Usage, tokens: str, dollars: str
) -> None:
    assert figures.spent(usage) == (tokens, dollars)
