"""Usage is counted, and what lies between two looks at an account is known."""

from __future__ import annotations

import pytest

from goalrunner.model.usage import Usage

BEFORE = Usage(input_tokens=10, output_tokens=5, cost_usd=0.25, calls=1)
SPENT = Usage(input_tokens=7, output_tokens=1, cost_usd=0.5, calls=1, retries=2)


def test_what_was_spent_since_is_the_difference() -> None:
    assert (BEFORE + SPENT).since(BEFORE) == SPENT
    assert BEFORE.since(BEFORE) == Usage()


@pytest.mark.parametrize(("after", "before"), [(None, 0.25), (0.25, None)])
def test_dollars_are_unknown_where_either_is(after: float | None, before: float | None) -> None:
    assert Usage(cost_usd=after).since(Usage(cost_usd=before)).cost_usd is None
