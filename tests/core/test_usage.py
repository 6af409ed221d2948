"""Usage is counted, and what lies between two looks at an account is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.core.outcome import Usage

BEFORE = Usage(input_tokens=10, output_tokens=5, cost_usd=0.25, calls=1)
SPENT = Usage(input_tokens=7, output_tokens=1, cost_usd=0.5, calls=1, retries=2)


def test_what_was_spent_since_is_the_difference() -> None:
    assert (BEFORE + SPENT).since(BEFORE) == SPENT
    assert BEFORE.since(BEFORE) == Usage()


@pytest.mark.parametrize(("after", "before"), [(None, 0.25), (0.25, None)])
def test_dollars_are_unknown_where_either_is(
    after: float | None, before: float | None
) -> None:
    assert Usage(cost_usd=after).since(Usage(cost_usd=before)).cost_usd is None


def test_nothing_known_is_none_and_a_part_of_it_is_a_lower_bound() -> None:
    nothing = Usage() + Usage.unknown()
    assert (
        nothing.input_tokens,
        nothing.output_tokens,
        nothing.cost_usd,
        nothing.uncounted_calls,
    ) == (
        None,
        None,
        None,
        1,
    )
    assert (nothing.tokens, nothing.known_cost_usd) == (0, 0.0)
    part = SPENT + nothing + BEFORE
    assert (part.input_tokens, part.output_tokens, part.uncounted_calls) == (17, 6, 1)
    assert (part.cost_usd, part.known_cost_usd) == (None, 0.75)


def test_dollars_may_be_known_where_tokens_are_not_and_the_other_way_round() -> None:
    dollars = Usage(cost_usd=0.5, calls=1, uncounted_calls=1)
    assert (dollars.input_tokens, dollars.cost_usd) == (None, 0.5)
    tokens = Usage(input_tokens=5, cost_usd=None, calls=1)
    assert (tokens.input_tokens, tokens.uncounted_calls, tokens.cost_usd) == (
        5,
        0,
        None,
    )


OLD = '{"input_tokens":0,"output_tokens":0,"cost_usd":null,"calls":2,"retries":0,"estimated_tokens":0}'


USAGES = st.builds(
    Usage,
    input_tokens=st.integers(0, 9),
    cost_usd=st.none() | st.sampled_from([0.0, 0.25, 0.5]),
    calls=st.integers(0, 3),
    uncounted_calls=st.integers(0, 2),
)


@given(USAGES, USAGES, USAGES)
def test_sums_forget_nothing(one: Usage, two: Usage, three: Usage) -> None:
    assert (one + two) + three == one + (two + three)
    assert one + Usage() == one
    total = one + two
    assert (total.input_tokens is None) == (
        total.uncounted_calls > 0 and total.tokens == 0
    )
    assert total.cost_usd in (None, total.known_cost_usd)
    assert Usage.model_validate_json(total.model_dump_json()) == total
