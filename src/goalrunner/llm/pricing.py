"""The tokens and the cost of an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from goalrunner.core.outcome import Usage
from goalrunner.llm.transport import Draft, Request, UsageReport

CHARACTERS_PER_TOKEN = 4
"""The estimate if no tokenizer can be used."""

PRICE_PARAMS = ("input_cost_per_token", "output_cost_per_token")
"""Dollars per token, set in `params` for a model that LiteLLM does not know."""

Prices = tuple[float, float]


def measure(library: Any, model: str, prices: Prices | None, request: Request, draft: Draft) -> Usage:
    """Return the usage of an answer, as the provider reports it or estimated from the texts."""
    report = draft.report
    if report is None or report.input_tokens + report.output_tokens == 0:
        report = _estimate(library, model, request, draft)
    return Usage(
        input_tokens=report.input_tokens,
        output_tokens=report.output_tokens,
        cost_usd=price(library, model, prices, report),
    )


def price(library: Any, model: str, prices: Prices | None, report: UsageReport) -> float | None:
    """Return US dollars by the given prices or LiteLLM's local table; None without either."""
    if prices is not None:
        return report.input_tokens * prices[0] + report.output_tokens * prices[1]
    if not is_priced(library, model):
        return None
    # With the provider's report, cached and reasoning tokens are counted at their own prices.
    detail = {} if report.detail is None else {"usage_object": report.detail}
    try:
        cost = library.cost_per_token(
            model=model, prompt_tokens=report.input_tokens, completion_tokens=report.output_tokens, **detail
        )
        return max(0.0, float(sum(cost)))
    except Exception:  # LiteLLM raises various errors for what it does not know
        return None


def own_prices(params: Mapping[str, Any]) -> Prices | None:
    """Return dollars per input and output token as set in `params`; None unless both are numbers."""
    try:
        return float(params[PRICE_PARAMS[0]]), float(params[PRICE_PARAMS[1]])
    except (KeyError, TypeError, ValueError):
        return None


def is_priced(library: Any, model: str) -> bool:
    """Return whether LiteLLM's local table has a price for the model, which may be 0."""
    entry = library.model_cost.get(str(_info(library, model).get("key") or "")) or {}
    return entry.get("input_cost_per_token") is not None


def context_window(library: Any, model: str) -> int | None:
    """Return the most input tokens by the same table; None if unknown."""
    info = _info(library, model)
    limit = info.get("max_input_tokens") or info.get("max_tokens")
    return int(limit) if limit else None


def _estimate(library: Any, model: str, request: Request, draft: Draft) -> UsageReport:
    """Count tokens with LiteLLM's tokenizers, or by length if those fail."""
    messages = [dict(message) for message in request.messages]
    answer = draft.text + "".join(call.name + call.arguments for call in draft.calls)
    try:
        tools = [tool.offer() for tool in request.tools] or None
        sent = int(library.token_counter(model=model, messages=messages, tools=tools))
        received = int(library.token_counter(model=model, text=answer)) if answer else 0
    except Exception:
        sent = -(-len(json.dumps(messages, default=str)) // CHARACTERS_PER_TOKEN)
        received = -(-len(answer) // CHARACTERS_PER_TOKEN)
    return UsageReport(input_tokens=sent, output_tokens=received)


@lru_cache(maxsize=64)
def _info(library: Any, model: str) -> Mapping[str, Any]:
    # Cached: LiteLLM takes milliseconds for a model that it does not know.
    try:
        info: Mapping[str, Any] = library.get_model_info(model)
    except Exception:
        return {}
    return info
