"""LiteLLM's table of models: their prices, context windows and providers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from goalrunner.core.outcome import Usage
from goalrunner.llm.requests import Draft, Request

PRICE_PARAMS = ("input_cost_per_token", "output_cost_per_token")
"""Dollars per token, set in `params` for a model that LiteLLM does not know."""

Prices = tuple[float, float]

_CHARACTERS_PER_TOKEN = 4


def measure(
    library: Any, model: str, prices: Prices | None, request: Request, draft: Draft
) -> Usage:
    """Return the usage of an answer.

    It is as the provider reports it, or estimated from the length of the texts.
    """
    used, detail = draft.report, draft.detail
    if used is None or not used.tokens:
        used, detail = _estimate(request, draft), None
    return Usage(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost_usd=price_of(library, model, prices, used, detail),
    )


def _estimate(request: Request, draft: Draft) -> Usage:
    offers = [tool.offer() for tool in request.tools]
    sent = json.dumps([*request.messages, *offers], default=str)
    calls = [call.name + call.arguments for call in draft.calls.values()]
    received = "".join([draft.text, *calls])
    # Rounded up, so that no call is free.
    return Usage(
        input_tokens=-(-len(sent) // _CHARACTERS_PER_TOKEN),
        output_tokens=-(-len(received) // _CHARACTERS_PER_TOKEN),
    )


def price_of(
    library: Any, model: str, prices: Prices | None, used: Usage, detail: Any = None
) -> float | None:
    """Return US dollars by the given prices or LiteLLM's local table.

    None without either, or for unknown tokens. With the provider's report as `detail`,
    cached and reasoning tokens are counted at their own prices.
    """
    if used.input_tokens is None or used.output_tokens is None:
        return None
    if prices is not None:
        return used.input_tokens * prices[0] + used.output_tokens * prices[1]
    if not is_priced(library, model):
        return None
    more = {} if detail is None else {"usage_object": detail}
    try:
        cost = library.cost_per_token(
            model=model,
            prompt_tokens=used.input_tokens,
            completion_tokens=used.output_tokens,
            **more,
        )
        return max(0.0, float(sum(cost)))
    except Exception:  # LiteLLM raises various errors for what it does not know
        return None


def own_prices(params: Mapping[str, Any]) -> Prices | None:
    """Return dollars per input and output token as set in `params`.

    None unless both are numbers.
    """
    with suppress(KeyError, TypeError, ValueError):
        return float(params[PRICE_PARAMS[0]]), float(params[PRICE_PARAMS[1]])
    return None


def is_priced(library: Any, model: str) -> bool:
    """Return whether the table has a price for the model, which may be 0."""
    key = str(_info(library, model).get("key") or "")
    entry = library.model_cost.get(key) or {}
    return entry.get("input_cost_per_token") is not None


def context_window(library: Any, model: str) -> int | None:
    """Return the most input tokens in the table; None if unknown."""
    info = _info(library, model)
    limit = info.get("max_input_tokens") or info.get("max_tokens")
    return int(limit) if limit else None


@lru_cache(maxsize=64)
def _info(library: Any, model: str) -> Mapping[str, Any]:
    # Cached: LiteLLM takes milliseconds for a model that it does not know, and raises
    # various errors.
    with suppress(Exception):
        return dict(library.get_model_info(model))
    return {}


def provider_of(library: Any, model: str) -> str:
    """Return LiteLLM's name of the provider; empty if it knows none."""
    # LiteLLM raises various errors; the request reports them.
    with suppress(Exception):
        return str(library.get_llm_provider(model)[1])
    return ""
