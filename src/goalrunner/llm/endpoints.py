"""The keys and addresses of models, found without a call.

The variable that the goal names comes first, then `LLM_API_KEY` together with
`LLM_BASE_URL`, then the provider's own variable, then `LLM_API_KEY` alone.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from goalrunner.core.errors import AuthenticationFailed
from goalrunner.core.events import Account
from goalrunner.llm.failure import Endpoint, FailureKind, ProviderFailure
from goalrunner.llm.prices import provider_of

FALLBACK_KEY = "LLM_API_KEY"
FALLBACK_BASE = "LLM_BASE_URL"
PLACEHOLDER = "none"

# Providers with other credentials, or none. LLM_API_KEY alone is not sent to them.
_WITHOUT_API_KEY = frozenset(
    {
        "bedrock",
        "bedrock_converse",
        "chatgpt",
        "github_copilot",
        "oci",
        "ollama",
        "ollama_chat",
        "sagemaker",
        "sagemaker_chat",
        "vertex_ai",
        "vertex_ai_beta",
    }
)


def refuse_empty_key(
    variable: str, account: Account, environ: Mapping[str, str]
) -> None:
    """Raise AuthenticationFailed if a variable for the key is not set or empty."""
    if environ.get(variable, "").strip():
        return
    state = "is empty" if variable in environ else "is not set"
    raise AuthenticationFailed(
        f"the environment variable {variable} {state}; "
        f'[{account}] api_key_env = "{variable}" names it for the key',
        f"export {variable}=...",
    )


def find_endpoint(
    library: Any,
    model: str,
    api_base: str | None,
    variable: str | None,
    environ: Mapping[str, str],
) -> Endpoint:
    """Return the address and key for a model.

    `variable` is the goal's `api_key_env`.
    """
    base = api_base or environ.get(FALLBACK_BASE, "").strip() or None
    fallback_key = environ.get(FALLBACK_KEY, "").strip()
    # The two fallbacks belong together: the key is for that address.
    if not variable and base and not api_base and fallback_key:
        variable = FALLBACK_KEY
    if variable:
        return Endpoint(base, environ.get(variable, "").strip(), variable)
    provider = provider_of(library, model)
    provider_variable = f"{provider.upper()}_API_KEY" if provider else ""
    if environ.get(provider_variable, "").strip():
        return Endpoint(base, None, provider_variable)
    if provider in _WITHOUT_API_KEY:
        return Endpoint(base)
    if fallback_key:
        return Endpoint(base, fallback_key, FALLBACK_KEY)
    missing = _missing_keys(library, model)
    if missing and provider_variable not in missing:
        provider_variable = missing[-1]
    # Clients of OpenAI's API refuse to start without a key, also for a server that
    # needs none.
    key = PLACEHOLDER if base and missing else None
    return Endpoint(base, key, provider_variable, key_known=not missing)


def _missing_keys(library: Any, model: str) -> list[str]:
    """Return the variables of keys that LiteLLM misses."""
    try:
        names = library.validate_environment(model)["missing_keys"]
    except Exception:  # LiteLLM raises various errors
        return []
    # Addresses and versions, which LiteLLM lists too, are left out.
    return [name for name in names if name.endswith(("API_KEY", "_TOKEN"))]


@cache
def _folder() -> Path:
    """Return the folder of the installed LiteLLM, which is not imported.

    It does not exist if LiteLLM is not installed.
    """
    try:
        spec = importlib.util.find_spec("litellm")
    except ValueError:
        # A module without a specification stands for it.
        spec = None
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places or ()), "/nonexistent"))


@cache
def provider_names() -> frozenset[str]:
    """Return the providers that LiteLLM's source names; empty if it cannot be read."""
    more_file = _folder() / "llms" / "openai_like" / "providers.json"
    try:
        source = (_folder() / "types" / "utils.py").read_text(encoding="utf-8")
        more_names = json.loads(more_file.read_bytes())
    except (OSError, ValueError):
        return frozenset()
    members = source.partition("\nclass LlmProviders(")[2].partition("\nclass ")[0]
    names = re.findall(r'^    [A-Z0-9_]+ = "([^"]+)"', members, re.MULTILINE)
    # Without the names of the class, its form has changed and every name would be
    # refused.
    return frozenset({*names, *more_names}) if names else frozenset()


@cache
def _providers_of_models() -> Mapping[str, str]:
    """Return the provider of each model in LiteLLM's table; empty if unreadable."""
    file = _folder() / "model_prices_and_context_window_backup.json"
    try:
        table = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return {
        name: str(entry.get("litellm_provider", "")) for name, entry in table.items()
    }


# Providers that take only an API key, with the prefixes of their variables, any of
# which may be a key.
_KEY_PREFIXES = {
    "anthropic": ("ANTHROPIC_",),
    "deepseek": ("DEEPSEEK_",),
    "gemini": ("GEMINI_", "GOOGLE_"),
    "groq": ("GROQ_",),
    "mistral": ("MISTRAL_",),
    "openai": ("OPENAI_",),
}

# Parameters that choose another provider, address or key.
_STEERING = frozenset(
    {
        "api_key",
        "api_base",
        "base_url",
        "client",
        "custom_llm_provider",
        "deployment_id",
        "extra_headers",
        "fallbacks",
        "headers",
        "litellm_credential_name",
        "mock_response",
        "model_list",
    }
)


def refuse_missing_key(
    model: str, params: Mapping[str, Any], account: Account, environ: Mapping[str, str]
) -> None:
    """Raise AuthenticationFailed if a model of a known provider has no key.

    `params`, and settings of a LiteLLM that the calling program has imported, may hold
    a key or an address.
    """
    provider, slash, _ = model.partition("/")
    if not slash:
        provider = _providers_of_models().get(model, "")
    if provider not in _KEY_PREFIXES or params.keys() & _STEERING:
        return
    settings = _settings()
    for name in ("api_key", f"{provider}_key", "api_base"):
        if settings.get(name):
            return
    prefixes = (*_KEY_PREFIXES[provider], FALLBACK_KEY, FALLBACK_BASE)
    for name, value in environ.items():
        if name.startswith(prefixes) and value.strip():
            return
    variable = f"{provider.upper()}_API_KEY"
    raise AuthenticationFailed(
        f"the key for {model} is missing: {variable} is not set",
        f"export {variable}=...   "
        f"(or name another variable with api_key_env in [{account}])",
    )


def refuse_unknown_provider(model: str, params: Mapping[str, Any]) -> None:
    """Raise ProviderFailure if LiteLLM has no provider of the name in the model.

    Call it only for a model without an address of its own: LiteLLM finds some providers
    by their addresses. `params`, and settings of a LiteLLM that the calling program has
    imported, may select another provider.
    """
    settings = _settings()
    is_mapped = model in (settings.get("model_alias_map") or {}) or bool(
        settings.get("custom_provider_map")
    )
    if params.keys() & _STEERING or is_mapped or not provider_names():
        return
    name, slash, model_name = model.partition("/")
    # Replicate's models may be named by the hash of a version alone.
    if name in provider_names() or ":" in model or model in _providers_of_models():
        return
    if slash:
        message = f'unknown provider "{name}"'
        similar = difflib.get_close_matches(name.lower(), provider_names(), n=1)
        if similar:
            message += f"; did you mean {similar[0]}/{model_name}?"
    else:
        message = (
            f"it names no provider; write provider/model, for example openai/{model}"
        )
    raise ProviderFailure(message, kind=FailureKind.MODEL)


def _settings() -> Mapping[str, Any]:
    """Return the settings of LiteLLM if a program has imported it; else none."""
    library = sys.modules.get("litellm")
    return vars(library) if library else {}
