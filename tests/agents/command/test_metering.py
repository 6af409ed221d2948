"""What an agent says that it used, as usage of the run."""

from __future__ import annotations

import pytest

from goalrunner.agents.stream_events import Reported
from goalrunner.agents.usage import spent
from goalrunner.core.outcome import Usage


@pytest.mark.parametrize(
    ("report", "dollars"),
    [
        (Reported(10, 5, 0.25), 0.25),
        (Reported(10, 5, None), None),
        (Reported(10, 5, 0.0), None),  # tokens for nothing: a model whose price the agent does not know
        (Reported(0, 0, 0.0), 0.0),
        (Reported(10, 5, 0.0, dollars=False), 0.0),  # another line tells the dollars
        (Reported(0, 0, 0.0, tokens=False), 0.0),
    ],
)
def test_tokens_for_no_dollars_have_no_known_price(report: Reported, dollars: float | None) -> None:
    new, total = spent(report, Usage())
    assert new.cost_usd == dollars
    assert total == Usage()


def test_of_totals_the_difference_is_new() -> None:
    _, first = spent(Reported(10, 5, 0.25, cumulative=True), Usage())
    new, second = spent(Reported(30, 7, 1.0, cumulative=True), first)
    assert (new.input_tokens, new.output_tokens, new.cost_usd, new.calls) == (20, 2, 0.75, 1)
    assert (second.input_tokens, second.output_tokens, second.cost_usd) == (30, 7, 1.0)


def test_a_total_that_shrank_is_all_new() -> None:
    _, first = spent(Reported(10, 5, 0.25, cumulative=True), Usage())
    new, _ = spent(Reported(4, 1, 0.125, cumulative=True), first)
    assert (new.input_tokens, new.output_tokens, new.cost_usd) == (4, 1, 0.125)
