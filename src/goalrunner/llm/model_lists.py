"""Whether a model exists: LiteLLM's own map of models, or the list of the provider's server."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from goalrunner.llm.credentials import PLACEHOLDER
from goalrunner.llm.failure import Endpoint, FailureKind, ProviderFailure
from goalrunner.llm.library import known_models, provider_of

DEADLINE = 5.0
"""Seconds for one list."""

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
_VERSIONS = {"anthropic": ("v1", "?limit=1000"), "gemini": ("v1beta", "?pageSize=1000")}
"""Providers with a path of their own; the others have `{base}/models`, as OpenAI has."""
_LOCAL = frozenset({"azure", "azure_ai", "huggingface", "ollama", "ollama_chat"})
"""Providers at which names are the user's own: LiteLLM's map holds examples of them."""
_WITHOUT_LIST = (404, 405, 501)


class _Question(NamedTuple):
    """Where the list is, with the name of the model there."""

    name: str
    url: str
    headers: dict[str, str]
    place: str
    """The provider or the address of the server, for people."""
    is_custom: bool


async def unlisted(library: Any, model: str, endpoint: Endpoint, environ: Mapping[str, str]) -> str:
    """Return a warning about a model that may not exist; empty if it exists, or if nothing suggests that it does not.

    Raise ProviderFailure if the provider lists its models and this one is not among them.
    """
    provider, name = provider_of(library, model), model.partition("/")[2] or model
    known = known_models(library, provider)
    if name in known:
        return ""
    near = [] if provider in _LOCAL or name == model else difflib.get_close_matches(name, known, n=1, cutoff=0.85)
    question = _question(library, model, endpoint, environ)
    names: list[str] = []
    unreadable = ""
    try:
        names = await _ask(question) if question else []
    except Exception as error:  # the model may exist nevertheless
        place = question.place if question else ""
        unreadable = f", and the models of {place} could not be listed ({_reason(error)})"
    guess = f"; did you mean {model.removesuffix(name)}{near[0]}?" if near else ""
    if question is None or not names:
        return f"the model {model} is not known to LiteLLM{unreadable}{guess}" if unreadable or near else ""
    if is_listed(question.name, names):
        return ""
    if question.is_custom and len(names) == 1:
        # Servers of one model, such as llama.cpp, mostly take any name for it.
        return f"the server at {question.place} lists only the model {names[0]}, not {question.name}"
    if similar := difflib.get_close_matches(question.name, names, n=1, cutoff=0.6):
        guess = f"; did you mean {model.removesuffix(question.name)}{similar[0]}?"
    message = f"it is not among the {len(names)} models that {question.place} lists{guess}"
    raise ProviderFailure(message, kind=FailureKind.MODEL)


def is_listed(name: str, names: Sequence[str]) -> bool:
    """Return whether a list has the name, a version that the name stands for, or the model without its variant."""
    wanted, listed = name.lower(), {item.lower() for item in names}
    if listed & {wanted, f"{wanted}:latest", wanted.partition(":")[0]}:
        return True
    stem = wanted.removesuffix("-latest")
    # "claude-sonnet-4-5" stands for "claude-sonnet-4-5-20250929".
    versions = re.compile(re.escape(stem) + (r"(-.*)?" if stem != wanted else r"-\d{3,}[\d-]*"))
    return any(map(versions.fullmatch, listed))


def _question(library: Any, model: str, endpoint: Endpoint, environ: Mapping[str, str]) -> _Question | None:
    try:
        name, provider, key, _ = library.get_llm_provider(model, api_base=endpoint.api_base)
    except Exception:  # LiteLLM raises various errors; the call itself reports it
        return None
    variables = (f"{provider.upper()}_BASE_URL", f"{provider.upper()}_API_BASE")
    bases = (endpoint.api_base, getattr(library, "api_base", None), *map(environ.get, variables))
    custom = next((base for base in bases if base), "").strip().rstrip("/")
    alike = provider == "openai" or provider in getattr(library, "openai_compatible_providers", ())
    base = custom or _ADDRESSES.get(provider, "")
    if not base or not (alike or provider in _ADDRESSES):
        return None
    key = endpoint.api_key or environ.get(endpoint.variable, "").strip() or key or ""
    headers = {"Authorization": f"Bearer {key}"} if key and key != PLACEHOLDER else {}
    if provider == "anthropic":
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    elif provider == "gemini":
        headers = {"x-goog-api-key": key}
    version, many = _VERSIONS.get(provider, ("", ""))
    if version:
        base = f"{re.sub(rf'/{version}(/messages)?$', '', base)}/{version}"
    place = re.sub(r"^.*?://(.*@)?|[/?#].*$", "", base) if custom else provider
    return _Question(name.removeprefix("responses/"), f"{base}/models{many}", headers, place, bool(custom))


async def _ask(question: _Question) -> list[str]:
    """Return the names in the list, none if the server has no list. Raise if it cannot be read in time."""
    import httpx  # with LiteLLM, which depends on it

    # A redirection is not followed: it would get the key as well.
    async with asyncio.timeout(DEADLINE), httpx.AsyncClient(timeout=DEADLINE) as client:
        response = await client.get(question.url, headers=question.headers)
    if response.status_code in _WITHOUT_LIST:
        return []
    answer = response.raise_for_status().json()
    rows = answer.get("data") or answer.get("models") or () if isinstance(answer, dict) else answer
    given = [row.get("id") or row.get("name") for row in rows]
    if isinstance(answer, dict) and (answer.get("has_more") or answer.get("nextPageToken")):
        raise ValueError("it has several pages")
    return [name.removeprefix("models/") for name in given if name and isinstance(name, str)]


def _reason(error: Exception) -> str:
    """Return why a list is missing, without the address, which may hold a key."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return f"HTTP {status}"
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return f"no answer in {DEADLINE:g} s"
    return "no connection" if "Connect" in type(error).__name__ else "its answer cannot be read"
