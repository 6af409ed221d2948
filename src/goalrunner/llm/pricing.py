"""What an answer cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from goalrunner.core.outcome import Usage
from goalrunner.llm.transport import Draft, Request, UsageReport

CHARACTERS_PER_TOKEN = 4
"""The honest guess where nothing can count."""

PRICE_PARAMS = ("input_cost_per_token", "output_cost_per_token")
"""Dollars per token, given in `params` for a model that no map knows."""

Prices = tuple[float, float]


def measure(library: Any, model: str, prices: Prices | None, request: Request, draft: Draft) -> Usage:
    """What an answer used: as the provider reports it, or estimated from the texts where it reports nothing."""
    report = draft.report
    if report is None or report.input_tokens + report.output_tokens == 0:
        report = estimate(library, model, request, draft)
    return Usage(
        input_tokens=report.input_tokens,
        output_tokens=report.output_tokens,
        cost_usd=price(library, model, prices, report),
    )


def price(library: Any, model: str, prices: Prices | None, report: UsageReport) -> float | None:
    """US dollars, by the prices given or by LiteLLM's local map; None when neither knows."""
    if report.cost_usd is not None:
        return report.cost_usd
    if prices is not None:
        return report.input_tokens * prices[0] + report.output_tokens * prices[1]
    if not is_priced(library, model):
        return None
    counts: dict[str, Any] = {"prompt_tokens": report.input_tokens, "completion_tokens": report.output_tokens}
    if report.detail is not None:
        # With it cached and reasoning tokens are counted at their own prices.
        counts["usage_object"] = report.detail
    try:
        return max(0.0, float(sum(library.cost_per_token(model=model, **counts))))
    except Exception:  # it raises whatever comes for what it does not know
        return None


def own_prices(params: Mapping[str, Any]) -> Prices | None:
    """Dollars per input and output token as `params` gives them; None unless it gives both."""
    try:
        return float(params[PRICE_PARAMS[0]]), float(params[PRICE_PARAMS[1]])
    except (KeyError, TypeError, ValueError):
        return None


def is_priced(library: Any, model: str) -> bool:
    """Whether LiteLLM's local map holds a price for the model; free is a price."""
    key = str(_info(library, model).get("key") or "")
    entry = library.model_cost.get(key) or {}
    return entry.get("input_cost_per_token") is not None


def context_window(library: Any, model: str) -> int | None:
    """The most input tokens, from the same map; None when unknown."""
    info = _info(library, model)
    limit = info.get("max_input_tokens") or info.get("max_tokens")
    return int(limit) if limit else None


def estimate(library: Any, model: str, request: Request, draft: Draft) -> UsageReport:
    """Token counts by LiteLLM's tokenizers, or by length where those fail."""
    messages = [dict(message) for message in request.messages]
    answer = draft.text + "".join(piece.name + piece.arguments for piece in draft.calls)
    try:
        tools = [tool.offer() for tool in request.tools] or None
        sent = int(library.token_counter(model=model, messages=messages, tools=tools))
        came = int(library.token_counter(model=model, text=answer)) if answer else 0
    except Exception:
        sent = -(-len(json.dumps(messages, default=str)) // CHARACTERS_PER_TOKEN)
        came = -(-len(answer) // CHARACTERS_PER_TOKEN)
    return UsageReport(input_tokens=sent, output_tokens=came)


@lru_cache(maxsize=64)
def _info(library: Any, model: str) -> Mapping[str, Any]:
    # Kept: for a model that it does not know LiteLLM searches for milliseconds, at every call.
    try:
        info: Mapping[str, Any] = library.get_model_info(model)
    except Exception:
        return {}
    return info
