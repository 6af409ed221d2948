"""The key and address of a model.

The variable that the goal names comes first, then `LLM_API_KEY` together with `LLM_BASE_URL`, then the provider's own
variable, then `LLM_API_KEY` alone.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from typing import Any

from goalrunner.core.errors import AuthenticationFailed
from goalrunner.core.events import Account
from goalrunner.llm.failure import Endpoint, FailureKind, ProviderFailure
from goalrunner.llm.library import provider_of

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
