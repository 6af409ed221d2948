"""Where a model's key and address come from. Owns the order of the places; asks no provider.

The key, first that is there:
1. the variable that `api_key_env` names - named and not set is an error, for something else was meant;
2. `LLM_API_KEY`, when the address is `LLM_BASE_URL`: the two belong together, and a provider's own key is not sent to
   another's server;
3. the provider's own variable, `OPENAI_API_KEY` and its like, as LiteLLM reads them;
4. `LLM_API_KEY`, for a provider that works with an API key and whose own variable is not set.
With an address of your own and no key anywhere a placeholder is sent: most local servers want none.

The address: `api_base`, else `LLM_BASE_URL`, else the provider's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from goalrunner.errors import AuthenticationFailed
from goalrunner.events import Account

FALLBACK_KEY = "LLM_API_KEY"
FALLBACK_BASE = "LLM_BASE_URL"
PLACEHOLDER = "none"

_WITHOUT_API_KEY = frozenset(
    {"bedrock", "bedrock_converse", "chatgpt", "github_copilot", "oci", "ollama", "ollama_chat", "sagemaker"}
    | {"sagemaker_chat", "vertex_ai", "vertex_ai_beta"}
)
"""Providers with another kind of credentials, or none: an API key would only be in the way there."""


@dataclass(frozen=True)
class Endpoint:
    """Where to send a request and with which key. None leaves the choice to LiteLLM."""

    api_base: str | None
    api_key: str | None = field(repr=False)
    variable: str
    """The variable that the key comes from, or would come from."""
    key_known: bool
    """Whether any key was found."""
    secrets: tuple[str, ...] = field(default=(), repr=False)


def named_key(variable: str, account: Account, environ: Mapping[str, str]) -> str:
    """The key in the variable that the goal names. Raises AuthenticationFailed when it is not set or empty."""
    key = environ.get(variable, "").strip()
    if key:
        return key
    state = "is empty" if variable in environ else "is not set"
    raise AuthenticationFailed(
        f'the environment variable {variable} {state}; [{account}] api_key_env = "{variable}" names it for the key',
        f"export {variable}=...",
    )


def find_endpoint(
    library: Any, model: str, api_base: str | None, named: tuple[str, str] | None, environ: Mapping[str, str]
) -> Endpoint:
    """Address and key for a model; `named` is the (variable, key) of `api_key_env`. The module says in which order."""
    base = api_base or environ.get(FALLBACK_BASE, "").strip() or None
    if named is not None:
        return _endpoint(base, named[1], named[0])
    fallback = environ.get(FALLBACK_KEY, "").strip()
    if base and not api_base and fallback:
        return _endpoint(base, fallback, FALLBACK_KEY)
    provider = provider_of(library, model)
    missing = _missing_keys(library, model)
    own = own_variable(provider, missing, environ)
    if environ.get(own, "").strip() and own not in missing:
        return Endpoint(base, None, own, key_known=True, secrets=(environ[own].strip(),))
    if provider in _WITHOUT_API_KEY:
        return Endpoint(base, None, "", key_known=True)
    if fallback:
        return _endpoint(base, fallback, FALLBACK_KEY)
    if base and missing:
        return Endpoint(base, PLACEHOLDER, own, key_known=False)
    return Endpoint(base, None, own, key_known=not missing)


def provider_of(library: Any, model: str) -> str:
    """LiteLLM's name of the provider; empty when it knows none."""
    try:
        return str(library.get_llm_provider(model)[1])
    except Exception:  # it raises whatever comes; the call itself will say it properly
        return ""


def own_variable(provider: str, missing: tuple[str, ...], environ: Mapping[str, str]) -> str:
    """The variable in which a provider's key is looked for."""
    usual = f"{provider.upper()}_API_KEY" if provider else ""
    if usual in missing or environ.get(usual, "").strip() or not missing:
        return usual
    return missing[-1]


def _endpoint(base: str | None, key: str, variable: str) -> Endpoint:
    return Endpoint(base, key, variable, key_known=True, secrets=(key,))


def _missing_keys(library: Any, model: str) -> tuple[str, ...]:
    """The API key variables that LiteLLM misses; addresses and versions, which it lists too, are left out."""
    try:
        names = library.validate_environment(model)["missing_keys"]
    except Exception:
        return ()
    return tuple(name for name in names if name.endswith(("API_KEY", "_TOKEN")))
