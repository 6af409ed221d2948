"""Usage over ACP, in the formats of real agents and in others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalrunner.agents.acp_usage import AcpUsage
from goalrunner.core.agent_preset import BudgetName, Scope
from goalrunner.core.outcome import Usage

CLAUDE: dict[BudgetName, Scope] = {"tokens": "turn", "cost_usd": "session"}
TOTALS: dict[BudgetName, Scope] = {"tokens": "session", "cost_usd": "session"}

METRICS = "openhands.dev/metrics"
KEYS = st.sampled_from(
    [
        "update",
        "_meta",
        "field_meta",
        METRICS,
        "usage",
        "quota",
        "token_count",
        "model_usage",
        "sessionUpdate",
    ]
) | st.sampled_from(
    [
        "inputTokens",
        "input_tokens",
        "output_tokens",
        "totalTokens",
        "cost",
        "amount",
        "currency",
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["USD", "usage_update", 10**400])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)
SCOPES = st.dictionaries(
    st.sampled_from(["tokens", "cost_usd"]), st.sampled_from(["turn", "session"])
)


@given(SCOPES, st.lists(JSON, max_size=4), JSON)
def test_nothing_that_is_said_of_costs_does_harm(
    scopes: Any, updates: list[Any], response: Any
) -> None:
    meter = AcpUsage(scopes)
    for update in updates:
        meter.update(update)
        meter.update(dollars(update))
    usage = meter.end_turn(
        {"usage": response, "_meta": {"quota": {"model_usage": response}}}
    )
    assert usage.cost_usd is None or 0 <= usage.cost_usd < float("inf")
    assert usage.tokens >= 0


def dollars(amount: object, currency: str = "USD") -> dict[str, Any]:
    cost = {"amount": amount, "currency": currency}
    return {
        "sessionId": "s",
        "update": {"sessionUpdate": "usage_update", "used": 7, "cost": cost},
    }


def tokens(given: int, made: int) -> dict[str, Any]:
    return {
        "stopReason": "end_turn",
        "usage": {"inputTokens": given, "outputTokens": made},
    }


def test_dollars_are_totals_of_the_session_unless_the_preset_says_otherwise() -> None:
    used = []
    for scopes in ({}, CLAUDE, {"cost_usd": "turn"}):
        meter = AcpUsage(scopes)  # type: ignore[arg-type]
        for amount in (0.25, 1.0):
            meter.update(dollars(amount))
            used.append(meter.end_turn({}).cost_usd)
    assert used == [0.25, 0.75, 0.25, 0.75, 0.25, 1.0]


def test_totals_of_an_earlier_process_are_not_counted_again() -> None:
    meter = AcpUsage(
        TOTALS, Usage(input_tokens=100, output_tokens=10, cost_usd=0.5, calls=2)
    )
    meter.update(dollars(0.75))
    assert meter.end_turn(tokens(150, 15)) == Usage(
        input_tokens=50, output_tokens=5, cost_usd=0.25, calls=1
    )
    assert (meter.total.tokens, meter.total.cost_usd) == (165, 0.75)


def test_a_total_of_tokens_that_begins_anew_takes_no_dollars_with_it() -> None:
    meter = AcpUsage(TOTALS, Usage(input_tokens=100, output_tokens=10, cost_usd=0.5))
    meter.update(dollars(0.75))
    assert meter.end_turn(tokens(30, 3)) == Usage(
        input_tokens=30, output_tokens=3, cost_usd=0.25, calls=1
    )


def test_tokens_of_the_turn_leave_no_total_behind() -> None:
    meter = AcpUsage(CLAUDE)
    meter.update(dollars(0.25))
    assert meter.end_turn(tokens(30, 3)).tokens == 33
    assert (meter.total.tokens, meter.total.cost_usd) == (0, 0.25)


@pytest.mark.parametrize(
    "amount", ["much", None, True, -1, float("nan"), float("inf"), 10**400]
)
def test_what_is_no_amount_is_unknown(amount: object) -> None:
    meter = AcpUsage(CLAUDE)
    meter.update(dollars(amount))
    assert meter.end_turn(tokens(1, 1)).cost_usd is None


def test_tokens_that_the_preset_does_not_promise_are_a_lower_bound() -> None:
    meter = AcpUsage({"cost_usd": "session"})
    told = meter.end_turn(tokens(10, 5)) + meter.end_turn(tokens(20, 5))
    assert (told.tokens, told.calls, told.uncounted_calls) == (40, 2, 2)
    assert AcpUsage(CLAUDE).end_turn(tokens(10, 5)).uncounted_calls == 0


def test_other_currencies_are_unknown_and_so_is_a_turn_that_tells_nothing() -> None:
    meter = AcpUsage(CLAUDE)
    meter.update(dollars(0.25, "EUR"))
    assert meter.end_turn(tokens(1, 1)).cost_usd is None
    meter.update(dollars(0.25))
    assert meter.end_turn({}).cost_usd == 0.25
    assert meter.end_turn({}) == Usage.unknown()


def test_tokens_for_no_dollars_have_no_known_price() -> None:
    meter = AcpUsage(CLAUDE)
    meter.update(dollars(0))
    assert meter.end_turn(tokens(10, 1)).cost_usd is None


def test_the_usage_of_helpers_is_in_the_rows_by_model() -> None:
    # Claude's own loop is in `usage`; its helpers, and what it asks besides, are in the rows.
    rows = [
        {"token_count": {"inputTokens": 60, "outputTokens": 5, "totalTokens": 85}},
        {"token_count": {"inputTokens": 9}},
    ]
    told = {
        **tokens(50, 5),
        "_meta": {"quota": {"token_count": {"inputTokens": 50}, "model_usage": rows}},
    }
    assert AcpUsage(CLAUDE).end_turn(told) == Usage(
        input_tokens=89, output_tokens=5, cost_usd=None, calls=1
    )


def test_gemini_tells_the_tokens_of_a_turn_in_its_quota() -> None:
    row = {"model": "m", "token_count": {"input_tokens": 3000, "output_tokens": 14}}
    told = {
        "stopReason": "end_turn",
        "_meta": {"quota": {"token_count": row["token_count"], "model_usage": [row]}},
    }
    assert AcpUsage({"tokens": "turn"}).end_turn(told) == Usage(
        input_tokens=3000, output_tokens=14, cost_usd=None, calls=1
    )


@pytest.mark.parametrize(
    "where",
    [lambda told: {"field_meta": {METRICS: told}}, lambda told: {METRICS: told}],
)
def test_openhands_tells_totals_beside_what_it_says(
    where: Callable[[Any], Any],
) -> None:
    meter = AcpUsage(TOTALS)
    used = []
    for taken, cost in ((1000, 0.25), (3000, 0.75)):
        told = {
            "input_tokens": taken,
            "output_tokens": 7,
            "cost": cost,
            "status_line": "1K",
        }
        for _ in range(2):
            meter.update(
                {
                    "update": {"sessionUpdate": "agent_message_chunk"},
                    "_meta": where(told),
                }
            )
        used.append(meter.end_turn({"stopReason": "end_turn"}))
    assert used[0] == Usage(input_tokens=1000, output_tokens=7, cost_usd=0.25, calls=1)
    assert used[1] == Usage(input_tokens=2000, output_tokens=0, cost_usd=0.5, calls=1)


def test_what_was_heard_of_a_turn_that_was_cut_counts_with_the_next() -> None:
    meter = AcpUsage({"tokens": "turn"})
    used = {"usage": {"inputTokens": 100, "outputTokens": 1}}
    piece = {"update": {"sessionUpdate": "agent_message_chunk", "_meta": used}}
    meter.update(piece)
    meter.update(piece)
    assert meter.end_turn({}).tokens == 202
    assert meter.end_turn({}).tokens == 0
