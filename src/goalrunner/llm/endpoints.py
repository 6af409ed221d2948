"""The key and address of a model, and whether the model exists there.

The variable that the goal names comes first, then `LLM_API_KEY` together with `LLM_BASE_URL`, then the provider's own
variable, then `LLM_API_KEY` alone. A model that LiteLLM does not know is looked up in the list of the provider's server.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from goalrunner.core.errors import AuthenticationFailed
from goalrunner.core.events import Account
from goalrunner.llm.failure import Endpoint, FailureKind, ProviderFailure
from goalrunner.llm.library import known_models, provider_of

FALLBACK_KEY = "LLM_API_KEY"
FALLBACK_BASE = "LLM_BASE_URL"
PLACEHOLDER = "none"

_WITHOUT_API_KEY = frozenset(
    {"bedrock", "bedrock_converse", "chatgpt", "github_copilot", "oci", "ollama", "ollama_chat", "sagemaker"}
    | {"sagemaker_chat", "vertex_ai", "vertex_ai_beta"}
)
"""Providers with other credentials, or none: an API key would be in the way."""


def named_key(variable: str, account: Account, environ: Mapping[str, str]) -> str:
    """Return the key in the variable that the goal names. Raise AuthenticationFailed if it is not set or empty."""
    if key := environ.get(variable, "").strip():
        return key
    state = "is empty" if variable in environ else "is not set"
    raise AuthenticationFailed(
        f'the environment variable {variable} {state}; [{account}] api_key_env = "{variable}" names it for the key',
        f"export {variable}=...",
    )


def find_endpoint(
    library: Any, model: str, api_base: str | None, named: tuple[str, str] | None, environ: Mapping[str, str]
) -> Endpoint:
    """Return address and key for a model; `named` is the (variable, key) of `api_key_env`."""
    base = api_base or environ.get(FALLBACK_BASE, "").strip() or None
    fallback = environ.get(FALLBACK_KEY, "").strip()
    if named is None and base and not api_base and fallback:
        named = (FALLBACK_KEY, fallback)
    if named is not None:
        return Endpoint(base, named[1], named[0], secrets=(named[1],))
    provider = provider_of(library, model)
    try:
        names = library.validate_environment(model)["missing_keys"]
    except Exception:  # LiteLLM raises various errors
        names = ()
    # Addresses and versions, which LiteLLM lists too, are left out.
    missing = [name for name in names if name.endswith(("API_KEY", "_TOKEN"))]
    own = f"{provider.upper()}_API_KEY" if provider else ""
    found = environ.get(own, "").strip()
    if missing and own not in missing and not found:
        own = missing[-1]
    if found and own not in missing:
        return Endpoint(base, None, own, secrets=(found,))
    if provider in _WITHOUT_API_KEY:
        return Endpoint(base)
    if fallback:
        return Endpoint(base, fallback, FALLBACK_KEY, secrets=(fallback,))
    return Endpoint(base, PLACEHOLDER if base and missing else None, own, key_known=not missing)


_OWN_VARIABLES = {
    "anthropic": ("ANTHROPIC_",),
    "deepseek": ("DEEPSEEK_",),
    "gemini": ("GEMINI_", "GOOGLE_"),
    "groq": ("GROQ_",),
    "mistral": ("MISTRAL_",),
    "openai": ("OPENAI_",),
}
"""Providers that take only an API key, with the prefixes of their variables, any of which may be a key."""

_STEERING = frozenset(
    {"api_key", "api_base", "base_url", "client", "custom_llm_provider", "deployment_id", "extra_headers", "headers"}
    | {"fallbacks", "mock_response", "model_list", "litellm_credential_name"}
)
"""Parameters that choose another provider, address or key."""


def refuse_missing_key(model: str, params: Mapping[str, Any], account: Account, environ: Mapping[str, str]) -> None:
    """Raise AuthenticationFailed if a model of a provider with a known variable has no key. Does not import LiteLLM.

    `params` and settings of a LiteLLM that the calling program has imported may hold a key, so nothing is refused then.
    """
    provider, slash, _ = model.partition("/")
    prefixes = _OWN_VARIABLES.get(provider, ()) if slash else ()
    if not prefixes or params.keys() & _STEERING or "litellm" in sys.modules:
        return
    if not _has_one((*prefixes, FALLBACK_KEY, FALLBACK_BASE), environ):
        variable = f"{provider.upper()}_API_KEY"
        hint = f"export {variable}=...   (or name another variable with api_key_env in [{account}])"
        raise AuthenticationFailed(f"the key for {model} is missing: {variable} is not set", hint)


def _has_one(prefixes: tuple[str, ...], environ: Mapping[str, str]) -> bool:
    return any(value.strip() and name.startswith(prefixes) for name, value in environ.items())


def refuse_unusable(library: Any, model: str, endpoint: Endpoint, environ: Mapping[str, str]) -> None:
    """Raise ProviderFailure, with the message of the call, if the first call is certain to fail."""
    try:
        provider = str(library.get_llm_provider(model, api_base=endpoint.api_base)[1])
    except Exception as error:  # LiteLLM raises various errors
        if "LLM Provider NOT provided" not in str(error):
            return
        name, slash, rest = model.partition("/")
        known = [str(getattr(item, "value", item)) for item in getattr(library, "provider_list", ())]
        near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
        said = f'unknown provider "{name}"' + (f"; did you mean {near[0]}/{rest}?" if near else "")
        if not slash:
            said = f"it names no provider; write provider/model, for example openai/{model}"
        raise ProviderFailure(said, kind=FailureKind.MODEL) from error
    prefixes = _OWN_VARIABLES.get(provider, ())
    if not prefixes or endpoint.key_known or endpoint.api_base or _has_one(prefixes, environ):
        return
    # A key, an address or a source of keys that is set in LiteLLM itself.
    settings = ("api_key", f"{provider}_key", "api_base", "secret_manager_client", "client_session", "aclient_session")
    if not any(getattr(library, name, None) for name in settings):
        raise ProviderFailure("", kind=FailureKind.AUTHENTICATION)


def is_steered(library: Any, model: str, params: Mapping[str, Any]) -> bool:
    """Return whether parameters, or settings of LiteLLM itself, may lead the call elsewhere than the name says."""
    # To look the last two up, LiteLLM asks a server for a login.
    if params.keys() & _STEERING or model.startswith(("chatgpt/", "github_copilot/")):
        return True
    aliases = getattr(library, "model_alias_map", None) or {}
    return model in aliases or bool(getattr(library, "custom_provider_map", None))


DEADLINE = 5.0  # seconds for one list

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
    place: str  # the provider or the address of the server, for people
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
