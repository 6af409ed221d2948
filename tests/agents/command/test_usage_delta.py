"""Reports of an agent as usage of the run."""

from __future__ import annotations

import pytest

from goalrunner.agents.output_reader import usage_delta
from goalrunner.agents.parser import UsageReported
from goalrunner.core.outcome import Usage


@pytest.mark.parametrize(
    ("report", "dollars"),
    [
        (UsageReported(10, 5, 0.25), 0.25),
        (UsageReported(10, 5, None), None),
        (UsageReported(10, 5, 0.0), None),  # tokens for nothing: a model whose price the agent does not know
        (UsageReported(0, 0, 0.0), 0.0),
        (UsageReported(10, 5, 0.0, dollars=False), 0.0),  # another line tells the dollars
        (UsageReported(0, 0, 0.0, tokens=False), 0.0),
    ],
)
def test_tokens_for_no_dollars_have_no_known_price(report: UsageReported, dollars: float | None) -> None:
    new, total = usage_delta(report, Usage())
    assert new.cost_usd == dollars
    assert total == Usage()


def test_of_totals_the_difference_is_new() -> None:
    _, first = usage_delta(UsageReported(10, 5, 0.25, cumulative=True), Usage())
    new, second = usage_delta(UsageReported(30, 7, 1.0, cumulative=True), first)
    assert (new.input_tokens, new.output_tokens, new.cost_usd, new.calls) == (20, 2, 0.75, 1)
    assert (second.input_tokens, second.output_tokens, second.cost_usd) == (30, 7, 1.0)


def test_a_total_that_shrank_is_all_new() -> None:
    _, first = usage_delta(UsageReported(10, 5, 0.25, cumulative=True), Usage())
    new, _ = usage_delta(UsageReported(4, 1, 0.125, cumulative=True), first)
    assert (new.input_tokens, new.output_tokens, new.cost_usd) == (4, 1, 0.125)
