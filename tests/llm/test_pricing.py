"""Usage and cost without a report of the provider."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from goalrunner.core.outcome import Usage
from goalrunner.llm.prices import measure, own_prices, price_of
from goalrunner.llm.requests import Draft, Request, ToolCall

REQUEST = Request(({"role": "user", "content": "x" * 100},))


class Helpless:
    """A library that knows nothing and raises at every question."""

    model_cost: ClassVar[dict[str, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_length_is_the_guess_where_nothing_can_count() -> None:
    draft = Draft(text="y" * 40, calls={0: ToolCall("", "shell", "{}")})
    usage = measure(Helpless(), "openai/x", None, REQUEST, draft)
    assert usage == Usage(input_tokens=34, output_tokens=12, cost_usd=None)


def test_a_report_of_nothing_at_all_is_not_believed() -> None:
    usage = measure(
        Helpless(), "openai/x", None, REQUEST, Draft(text="y" * 40, report=Usage())
    )
    assert usage.tokens > 0


def test_given_prices_win_over_every_map() -> None:
    prices = own_prices({"input_cost_per_token": 0.5, "output_cost_per_token": "2"})
    assert (
        price_of(
            Helpless(), "openai/x", prices, Usage(input_tokens=10, output_tokens=1)
        )
        == 7.0
    )


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"input_cost_per_token": 1},
        {"input_cost_per_token": 1, "output_cost_per_token": "?"},
    ],
)
def test_half_a_price_is_none(params: dict[str, Any]) -> None:
    assert own_prices(params) is None
