"""The key and address of a model, and whether the model exists there.

The variable that the goal names comes first, then `LLM_API_KEY` together with `LLM_BASE_URL`, then the provider's own
variable, then `LLM_API_KEY` alone. A model that LiteLLM does not know is looked up in the list of the provider's server.
"""

from __future__ import annotations

import asyncio
import difflib
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

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
"""Providers with other credentials, or none. LLM_API_KEY alone is not sent to them."""


def refuse_empty_key(variable: str, account: Account, environ: Mapping[str, str]) -> None:
    """Raise AuthenticationFailed if the variable that the goal names for the key is not set or empty."""
    if environ.get(variable, "").strip():
        return
    state = "is empty" if variable in environ else "is not set"
    raise AuthenticationFailed(
        f'the environment variable {variable} {state}; [{account}] api_key_env = "{variable}" names it for the key',
        f"export {variable}=...",
    )


def find_endpoint(
    library: Any, model: str, api_base: str | None, variable: str | None, environ: Mapping[str, str]
) -> Endpoint:
    """Return the address and key for a model; `variable` is the goal's `api_key_env`."""
    base = api_base or environ.get(FALLBACK_BASE, "").strip() or None
    fallback = environ.get(FALLBACK_KEY, "").strip()
    if not variable and base and not api_base and fallback:
        variable = FALLBACK_KEY
    if variable:
        return Endpoint(base, environ.get(variable, "").strip(), variable)
    provider = provider_of(library, model)
    own = f"{provider.upper()}_API_KEY" if provider else ""
    if environ.get(own, "").strip():
        return Endpoint(base, None, own)
    if provider in _WITHOUT_API_KEY:
        return Endpoint(base)
    if fallback:
        return Endpoint(base, fallback, FALLBACK_KEY)
    try:
        names = library.validate_environment(model)["missing_keys"]
    except Exception:  # LiteLLM raises various errors
        names = ()
    # Addresses and versions, which LiteLLM lists too, are left out.
    missing = [name for name in names if name.endswith(("API_KEY", "_TOKEN"))]
    variable = own if own in missing or not missing else missing[-1]
    return Endpoint(base, PLACEHOLDER if base and missing else None, variable, key_known=not missing)


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

    `params`, and settings of a LiteLLM that the calling program has imported, may hold a key or an address.
    """
    provider, slash, _ = model.partition("/")
    prefixes = _OWN_VARIABLES.get(provider, ()) if slash else ()
    library = sys.modules.get("litellm")
    settings = vars(library) if library else {}
    is_set = any(settings.get(name) for name in ("api_key", f"{provider}_key", "api_base"))
    if not prefixes or params.keys() & _STEERING or is_set:
        return
    prefixes = (*prefixes, FALLBACK_KEY, FALLBACK_BASE)
    if not any(value.strip() and name.startswith(prefixes) for name, value in environ.items()):
        variable = f"{provider.upper()}_API_KEY"
        hint = f"export {variable}=...   (or name another variable with api_key_env in [{account}])"
        raise AuthenticationFailed(f"the key for {model} is missing: {variable} is not set", hint)


def refuse_unknown_provider(library: Any, model: str) -> None:
    """Raise ProviderFailure if LiteLLM knows no provider of that name."""
    try:
        library.get_llm_provider(model)
    except Exception as error:  # LiteLLM raises various errors
        if "LLM Provider NOT provided" not in str(error):
            return
        name, slash, rest = model.partition("/")
        known = [str(getattr(item, "value", item)) for item in library.provider_list]
        near = difflib.get_close_matches(name.lower(), known, n=1)
        said = f'unknown provider "{name}"' + (f"; did you mean {near[0]}/{rest}?" if near else "")
        if not slash:
            said = f"it names no provider; write provider/model, for example openai/{model}"
        raise ProviderFailure(said, kind=FailureKind.MODEL) from error


def is_steered(library: Any, model: str, params: Mapping[str, Any]) -> bool:
    """Return whether parameters or settings of LiteLLM may select another provider than the model's name."""
    # For these two providers, LiteLLM's look-up starts a login.
    if params.keys() & _STEERING or model.startswith(("chatgpt/", "github_copilot/")):
        return True
    return model in (library.model_alias_map or {}) or bool(library.custom_provider_map)


DEADLINE = 5.0  # seconds for one list

_LISTS = {
    "anthropic": "https://api.anthropic.com/v1",
    "deepseek": "https://api.deepseek.com",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "groq": "https://api.groq.com/openai/v1",
    "mistral": "https://api.mistral.ai/v1",
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "xai": "https://api.x.ai/v1",
}
"""Providers that list every model that they accept, and the addresses below which `models` is the list."""
_WITHOUT_LIST = (404, 405, 501)


async def unlisted(library: Any, model: str, endpoint: Endpoint, environ: Mapping[str, str]) -> str:
    """Return a warning about a model that may not exist; empty if there is no sign that it does not exist.

    Raise ProviderFailure if the provider lists its models and this one is not among them.
    """
    provider, name = provider_of(library, model), model.partition("/")[2] or model
    known = known_models(library, provider)
    variables = (f"{provider.upper()}_BASE_URL", f"{provider.upper()}_API_BASE")
    custom = next(filter(None, (endpoint.api_base, *map(environ.get, variables))), "").rstrip("/")
    if name in known or provider not in _LISTS:
        return ""
    base = custom or _LISTS[provider]
    place = urlsplit(base).netloc.rpartition("@")[2]
    unreadable, names = "", []
    try:
        key = endpoint.api_key or environ.get(endpoint.variable, "").strip()
        names = await _listed(base, provider, key)
    except Exception as error:  # the model may exist all the same
        status = getattr(getattr(error, "response", None), "status_code", None)
        reason = f"HTTP {status}" if status else type(error).__name__
        unreadable = f", and the models of {place} could not be listed ({reason})"
    near = difflib.get_close_matches(name, names, n=1) or difflib.get_close_matches(name, known, n=1, cutoff=0.85)
    guess = f"; did you mean {model.removesuffix(name)}{near[0]}?" if near else ""
    if not names:
        return f"the model {model} is not known to LiteLLM{unreadable}{guess}" if unreadable or near else ""
    # "claude-sonnet-4-5" stands for "claude-sonnet-4-5-20250929", "qwen3:online" for "qwen3".
    stem = name.lower().partition(":")[0].removesuffix("-latest")
    if any(listed.lower().startswith(stem) for listed in names):
        return ""
    if custom and len(names) == 1:
        # Servers of one model, such as llama.cpp, mostly take any name for it.
        return f"the server at {place} lists only the model {names[0]}, not {name}"
    message = f"it is not among the {len(names)} models that {place} lists{guess}"
    raise ProviderFailure(message, kind=FailureKind.MODEL)


async def _listed(base: str, provider: str, key: str) -> list[str]:
    """Return the names in the list of a server; empty if it has no list. Raise if it cannot be read in time."""
    import httpx  # a dependency of LiteLLM

    headers = {"Authorization": f"Bearer {key}"} if key and key != PLACEHOLDER else {}
    if provider == "anthropic":
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
        base = f"{base.removesuffix('/v1')}/v1"
    elif provider == "gemini":
        headers = {"x-goog-api-key": key}
        base = f"{base.removesuffix('/v1beta')}/v1beta"
    most = {"anthropic": "?limit=1000", "gemini": "?pageSize=1000"}.get(provider, "")
    # Redirects are not followed, because their targets would get the key.
    async with asyncio.timeout(DEADLINE), httpx.AsyncClient(timeout=DEADLINE) as client:
        response = await client.get(f"{base}/models{most}", headers=headers)
    if response.status_code in _WITHOUT_LIST:
        return []
    answer = response.raise_for_status().json()
    names = [row.get("id") or row["name"] for row in answer.get("data") or answer.get("models") or ()]
    return [name.removeprefix("models/") for name in names]
