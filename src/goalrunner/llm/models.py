"""Prices of models, and the lists of models of providers."""

from __future__ import annotations

import asyncio
import difflib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from goalrunner.core.outcome import Usage
from goalrunner.llm.credentials import PLACEHOLDER, Endpoint, provider_of, similar_model
from goalrunner.llm.failure import FailureKind, ProviderFailure
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


DEADLINE = 5.0
"""Seconds for one list."""
LARGEST = 8 << 20
"""Bytes of one list; a larger one is not read."""

_ADDRESSES = {
    "anthropic": "https://api.anthropic.com",
    "deepseek": "https://api.deepseek.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "groq": "https://api.groq.com/openai/v1",
    "mistral": "https://api.mistral.ai/v1",
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "xai": "https://api.x.ai/v1",
}
"""Providers that list every model that they accept."""
_VERSIONS = {"anthropic": "v1", "gemini": "v1beta"}
"""Providers with a path of their own; the others have `{base}/models`, as OpenAI has."""
_LOCAL = frozenset({"azure", "azure_ai", "huggingface", "ollama", "ollama_chat"})
"""Providers at which names are the user's own: LiteLLM's map holds examples of them."""
_WITHOUT_LIST = (404, 405, 501)
_ALIAS = 0.85
"""How similar the only model of a server must be to a name that is a misspelling of it."""


@dataclass(frozen=True)
class _Question:
    """Where the list is, with the name of the model there."""

    name: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    place: str
    """The provider or the address of the server, for people."""
    is_custom: bool


async def unlisted(library: Any, model: str, endpoint: Endpoint, environ: Mapping[str, str]) -> str:
    """Return a warning about a model that may not exist; empty if it exists, or if nothing suggests that it does not.

    Raise ProviderFailure if the provider lists its models and this one is not among them.
    """
    if is_known(library, model):
        return ""
    near = "" if provider_of(library, model) in _LOCAL else similar_model(library, model)
    guess = f"; did you mean {near}?" if near else ""
    question = _question(library, model, endpoint, environ)
    unsure = f"the model {model} is not known to LiteLLM"
    if question is None:
        return f"{unsure}{guess}" if near else ""
    try:
        names = await _ask(question)
    except Exception as error:  # whatever keeps the list away, the model may exist
        return f"{unsure}, and the models of {question.place} could not be listed ({_reason(error)}){guess}"
    if not names:
        return f"{unsure}{guess}" if near else ""
    if is_listed(question.name, names):
        return ""
    similar = difflib.get_close_matches(question.name, names, n=1, cutoff=0.6)
    meant = f"; did you mean {model.removesuffix(question.name)}{similar[0]}?" if similar else guess
    if question.is_custom and len(names) == 1 and not _is_misspelled(question.name, names[0]):
        # Servers of one model, such as llama.cpp, mostly take any name for it.
        return f"the server at {question.place} lists only the model {names[0]}, not {question.name}"
    count = f"{len(names)} models" if len(names) > 1 else "1 model"
    message = f"it is not among the {count} that {question.place} lists{meant}"
    raise ProviderFailure(message, kind=FailureKind.MODEL)


def is_known(library: Any, model: str) -> bool:
    """Return whether LiteLLM's map has the model under its provider."""
    table = getattr(library, "model_cost", None) or {}
    provider, name = provider_of(library, model), model.partition("/")[2] or model
    if model in table or f"{provider}/{name}" in table:
        return True
    about = table.get(name)
    return isinstance(about, dict) and about.get("litellm_provider") == provider


def is_listed(name: str, names: Sequence[str]) -> bool:
    """Return whether a list has the name, a version that the name stands for, or the model without its variant."""
    wanted, listed = name.lower(), {item.lower() for item in names}
    if listed & {wanted, f"{wanted}:latest", wanted.partition(":")[0]}:
        return True
    stem = wanted.removesuffix("-latest")
    # "claude-sonnet-4-5" stands for "claude-sonnet-4-5-20250929".
    versions = re.compile(re.escape(stem) + (r"(-.*)?" if stem != wanted else r"-\d{3,}[\d-]*"))
    return any(map(versions.fullmatch, listed))


def _is_misspelled(name: str, only: str) -> bool:
    return bool(difflib.get_close_matches(name, [only], n=1, cutoff=_ALIAS))


def _question(library: Any, model: str, endpoint: Endpoint, environ: Mapping[str, str]) -> _Question | None:
    try:
        name, provider, key, _ = library.get_llm_provider(model, api_base=endpoint.api_base)
    except Exception:  # it raises whatever comes; the call itself will say it properly
        return None
    variables = (f"{provider.upper()}_BASE_URL", f"{provider.upper()}_API_BASE")
    bases = (endpoint.api_base, getattr(library, "api_base", None), *map(environ.get, variables))
    custom = next((base for base in bases if base), "").strip().rstrip("/")
    alike = provider == "openai" or provider in getattr(library, "openai_compatible_providers", ())
    base = custom or _ADDRESSES.get(provider, "")
    if not base or not (alike or provider in _ADDRESSES):
        return None
    key = endpoint.api_key or environ.get(endpoint.variable, "").strip() or key or ""
    version = _VERSIONS.get(provider)
    if version:
        base = f"{re.sub(rf'/{version}(/messages)?$', '', base)}/{version}"
    many = {"anthropic": "?limit=1000", "gemini": "?pageSize=1000"}.get(provider, "")
    place = re.sub(r"^.*?://(.*@)?|[/?#].*$", "", base) if custom else provider
    return _Question(
        name.removeprefix("responses/"), f"{base}/models{many}", _headers(provider, key), place, bool(custom)
    )


def _headers(provider: str, key: str) -> dict[str, str]:
    if provider == "anthropic":
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}
    if provider == "gemini":
        return {"x-goog-api-key": key}
    return {"Authorization": f"Bearer {key}"} if key and key != PLACEHOLDER else {}


async def _ask(question: _Question) -> list[str]:
    """Return the names in the list, none if the server has no list. Raise if it cannot be read in time."""
    import httpx  # with LiteLLM, which depends on it

    # Compressed, a small answer could fill the memory. A redirection is not followed: it would get the key as well.
    headers = {**question.headers, "Accept-Encoding": "identity"}
    async with (
        asyncio.timeout(DEADLINE),
        httpx.AsyncClient(timeout=DEADLINE) as client,
        client.stream("GET", question.url, headers=headers) as response,
    ):
        if response.status_code in _WITHOUT_LIST:
            return []
        response.raise_for_status()
        return _listed(await _body(response.aiter_raw()))


async def _body(chunks: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > LARGEST:
            raise ValueError("it is too large")
    return bytes(body)


def _listed(body: bytes) -> list[str]:
    answer = json.loads(body)
    rows = answer.get("data") or answer.get("models") or () if isinstance(answer, dict) else answer
    given = [row.get("id") or row.get("name") for row in rows]
    names = [name for name in given if isinstance(name, str)]
    if isinstance(answer, dict) and (answer.get("has_more") or answer.get("nextPageToken")):
        raise ValueError("it has several pages")
    return [name.removeprefix("models/") for name in names if name]


def _reason(error: Exception) -> str:
    """Return why a list is missing, without the address, which may hold a key."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return f"HTTP {status}"
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return f"no answer in {DEADLINE:g} s"
    if "Connect" in type(error).__name__:
        return "no connection"
    return "its answer cannot be read"
