"""Whether a model can be asked at all, as far as that is known without asking: its provider exists, a key is there.

Owns that question alone, and says no only where the first call would fail for certain. Whatever else may lead to a
provider - a parameter, a setting of LiteLLM's, a variable of the provider's own - leaves the answer to the call.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from goalrunner.llm.failure import FailureKind, ProviderFailure
from goalrunner.llm.keys import Endpoint

_OWN_VARIABLES = {
    "anthropic": ("ANTHROPIC_",),
    "deepseek": ("DEEPSEEK_",),
    "gemini": ("GEMINI_", "GOOGLE_"),
    "groq": ("GROQ_",),
    "mistral": ("MISTRAL_",),
    "openai": ("OPENAI_",),
}
"""Providers that take an API key and nothing else, and how the variables begin that they read: any of them may be a key."""

_STEERING = frozenset(
    {"api_key", "api_base", "base_url", "client", "custom_llm_provider", "deployment_id", "extra_headers", "headers"}
    | {"fallbacks", "mock_response", "model_list", "litellm_credential_name"}
)
"""Parameters that choose another provider, address or key."""

_LOOKED_UP_ONLINE = ("chatgpt/", "github_copilot/")
"""To look these up, LiteLLM asks a server for a login."""


def refuse_hopeless(
    library: Any, model: str, params: Mapping[str, Any], endpoint: Endpoint, environ: Mapping[str, str]
) -> None:
    """Raises ProviderFailure, in the words of the call, where the first call cannot but fail."""
    if params.keys() & _STEERING or model.startswith(_LOOKED_UP_ONLINE) or _is_steered(library, model):
        return
    provider = _provider(library, model, endpoint)
    own = _OWN_VARIABLES.get(provider, ())
    if not own or endpoint.key_known or endpoint.api_base:
        return
    if any(value.strip() for name, value in environ.items() if name.startswith(own)):
        return
    if not _has_key_of_its_own(library, provider):
        raise ProviderFailure("", kind=FailureKind.AUTHENTICATION)


def _provider(library: Any, model: str, endpoint: Endpoint) -> str:
    """LiteLLM's name of the provider; "" where it is not sure. Raises ProviderFailure where it says that there is none."""
    try:
        return str(library.get_llm_provider(model, api_base=endpoint.api_base)[1])
    except Exception as error:  # it raises whatever comes
        if "LLM Provider NOT provided" not in str(error):
            return ""
        raise ProviderFailure(_unknown_provider(library, model), kind=FailureKind.MODEL) from error


def _unknown_provider(library: Any, model: str) -> str:
    """Return what is wrong with the name of a model whose provider does not exist, with the name that may be meant."""
    provider, slash, name = model.partition("/")
    known = [str(getattr(item, "value", item)) for item in getattr(library, "provider_list", ())]
    if not slash:
        table = getattr(library, "model_cost", None) or {}
        providers = {
            listed: about["litellm_provider"]
            for listed, about in table.items()
            if "/" not in listed and isinstance(about, dict) and about.get("litellm_provider") in known
        }
        meant = difflib.get_close_matches(model, sorted(providers), n=1, cutoff=0.85)
        if meant:
            return f"it names no provider; did you mean {providers[meant[0]]}/{meant[0]}?"
        return f"it names no provider; write provider/model, for example openai/{model}"
    near = difflib.get_close_matches(provider.lower(), known, n=1, cutoff=0.6)
    return f'unknown provider "{provider}"' + (f"; did you mean {near[0]}/{name}?" if near else "")


def similar_model(library: Any, model: str) -> str:
    """Return the model of the same provider that a misspelled name may mean; empty if LiteLLM lists the name or none like it."""
    provider, slash, name = model.partition("/")
    table = getattr(library, "model_cost", None) or {}
    known = {
        listed.removeprefix(f"{provider}/")
        for listed, about in table.items()
        if isinstance(about, dict) and about.get("litellm_provider") == provider
    }
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.85) if slash and name not in known else []
    return f"{provider}/{near[0]}" if near else ""


def _is_steered(library: Any, model: str) -> bool:
    """Whether somebody has told LiteLLM of this model, or of models of their own."""
    aliases = getattr(library, "model_alias_map", None) or {}
    return model in aliases or bool(getattr(library, "custom_provider_map", None))


def _has_key_of_its_own(library: Any, provider: str) -> bool:
    """Whether a key, an address or a keeper of keys was set in LiteLLM itself."""
    names = ("api_key", f"{provider}_key", "api_base", "secret_manager_client", "client_session", "aclient_session")
    return any(getattr(library, name, None) for name in names)
