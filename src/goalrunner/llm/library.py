"""The import of LiteLLM, once and without output, and its table of models with their prices."""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from goalrunner.core.outcome import Usage
from goalrunner.llm.client import Draft, Request
from goalrunner.system import owns_process

ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the prices are fetched over the network at import
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "true",  # else these are fetched as well
    "LITELLM_MODE": "PRODUCTION",  # else a .env in the current folder is loaded, and an agent could redirect the judge
}
"""Set during the import; existing values are replaced. In a process of its own, `goal` leaves them set."""

_FILTERED_LOGGERS = (
    *(
        "apscheduler.executors.default",
        "apscheduler.scheduler",
        "asyncio",
        "backoff",
        "httpx",
        "uvicorn.access",
    ),
    "uvicorn.error",
)
"""Loggers of other packages to which LiteLLM adds filters early in its import; the filters import the rest of LiteLLM.

They are disabled during the import, because a record that another thread logs meanwhile would make both imports fail.
"""

_OWN_PROTOCOL = frozenset(
    {
        "anthropic",
        "bedrock",
        "gemini",
        "ollama",
        "ollama_chat",
        "sagemaker",
        "vertex_ai",
    }
)
"""Providers for which LiteLLM translates messages; the others take OpenAI's format."""

_WARNINGS = (
    ("", r"litellm(\..*)?$"),
    (r".*`ReadOnly` qualifier", ""),
    (r"Pydantic serializer warnings", ""),
)
"""Message and module of warnings about LiteLLM's own code."""

_lock = threading.Lock()
_library: Any = None
_is_configured = False


def litellm() -> Any:
    """Return LiteLLM, imported at the first call and shared by all threads.

    In a process of another program, its settings stay as that program has them.
    """
    global _library, _is_configured
    if _library is None or (owns_process() and not _is_configured):
        with _lock:
            if _library is None:
                _library = _import()
            if owns_process() and not _is_configured:
                _configure(_library)
                _is_configured = True
    return _library


def imported_litellm() -> Any | None:
    """Return LiteLLM if it is already imported, else None. Does not wait."""
    return _library


def has_own_protocol(model: str) -> bool:
    """Return whether the model's provider takes another format than OpenAI's."""
    return model.partition("/")[0] in _OWN_PROTOCOL


def prepare_for(model: str) -> Any:
    """Return LiteLLM, with everything imported that the first call of this model needs."""
    library = litellm()
    silence_warnings()
    if not has_own_protocol(model):
        with _lock, _quick_import():
            # OpenAI's client imports some five hundred modules at its first use.
            importlib.import_module("openai.resources.chat.completions")
    return library


def silence_warnings() -> None:
    """Hide LiteLLM's warnings, which may be errors in a test. Called before each use: filters may be replaced."""
    for message, module in _WARNINGS:
        # Python removes an equal filter before it adds one.
        warnings.filterwarnings("ignore", message=message, module=module)


def _import() -> Any:
    try:
        with _environment(), _quick_import():
            library: Any = importlib.import_module("litellm")
            importlib.import_module("httpcore")
    except BaseException:
        # Python keeps the submodules that were imported, and with them a later import would fail.
        for name in [
            name for name in sys.modules if name.partition(".")[0] == "litellm"
        ]:
            del sys.modules[name]
        raise
    return library


@contextmanager
def _environment() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ENVIRONMENT}
    os.environ.update(ENVIRONMENT)
    try:
        yield
    finally:
        if not owns_process():
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _configure(library: Any) -> None:
    """Set LiteLLM up for a process that is our own. What must hold in every process is passed with each request."""
    library.suppress_debug_info = True
    library.set_verbose = False
    library.telemetry = False
    # Otherwise LiteLLM fetches some models' tokenizers over the network to count tokens.
    library.disable_hf_tokenizer_download = True
    # LiteLLM's other transport leaves sessions open, which warn at exit.
    library.disable_aiohttp_transport = True
    # LiteLLM adapts histories that a provider would refuse, such as tool calls without text.
    library.modify_params = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "litellm"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1)
        logger.propagate = False


@contextmanager
def _quick_import() -> Iterator[None]:
    """Import without garbage collection, which takes a third of the import, and without warnings."""
    enabled = gc.isenabled()
    loggers = [
        logger
        for name in _FILTERED_LOGGERS
        if not (logger := logging.getLogger(name)).disabled
    ]
    gc.disable()
    for logger in loggers:
        logger.disabled = True
    try:
        with _deferred_models(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger in loggers:
            logger.disabled = False
        if enabled:
            if owns_process():
                # The objects of modules are never freed, so later collections can skip them.
                gc.freeze()
            gc.enable()


@contextmanager
def _deferred_models() -> Iterator[None]:
    """Let pydantic models be built at their first use: for LiteLLM's thousands, this saves a sixth of the import.

    Pydantic's default for that is not public; in a version without it, nothing is deferred.
    """
    defaults: dict[str, Any] = {}
    if owns_process():
        with suppress(ImportError, AttributeError):
            defaults = importlib.import_module(
                "pydantic._internal._config"
            ).config_defaults
    before = defaults.get("defer_build")
    defaults["defer_build"] = True
    try:
        yield
    finally:
        defaults["defer_build"] = before


PRICE_PARAMS = ("input_cost_per_token", "output_cost_per_token")
"""Dollars per token, set in `params` for a model that LiteLLM does not know."""

Prices = tuple[float, float]


def measure(
    library: Any, model: str, prices: Prices | None, request: Request, draft: Draft
) -> Usage:
    """Return the usage of an answer, as the provider reports it or estimated from the length of the texts."""
    used, detail = draft.report, draft.detail
    if used is None or not used.tokens:
        sent = json.dumps(
            [*request.messages, *(tool.offer() for tool in request.tools)], default=str
        )
        received = draft.text + "".join(
            call.name + call.arguments for call in draft.calls.values()
        )
        # A token has about four characters.
        used, detail = (
            Usage(
                input_tokens=-(-len(sent) // 4), output_tokens=-(-len(received) // 4)
            ),
            None,
        )
    cost = price_of(library, model, prices, used, detail)
    return Usage(
        input_tokens=used.input_tokens, output_tokens=used.output_tokens, cost_usd=cost
    )


def price_of(
    library: Any, model: str, prices: Prices | None, used: Usage, detail: Any = None
) -> float | None:
    """Return US dollars by the given prices or LiteLLM's local table; None without either, or for unknown tokens.

    With the provider's report as `detail`, cached and reasoning tokens are counted at their own prices.
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
    """Return dollars per input and output token as set in `params`; None unless both are numbers."""
    with suppress(KeyError, TypeError, ValueError):
        return float(params[PRICE_PARAMS[0]]), float(params[PRICE_PARAMS[1]])
    return None


def is_priced(library: Any, model: str) -> bool:
    """Return whether LiteLLM's local table has a price for the model, which may be 0."""
    entry = library.model_cost.get(str(_info(library, model).get("key") or "")) or {}
    return entry.get("input_cost_per_token") is not None


def context_window(library: Any, model: str) -> int | None:
    """Return the most input tokens in LiteLLM's local table; None if unknown."""
    info = _info(library, model)
    limit = info.get("max_input_tokens") or info.get("max_tokens")
    return int(limit) if limit else None


@lru_cache(maxsize=64)
def _info(library: Any, model: str) -> Mapping[str, Any]:
    # Cached: LiteLLM takes milliseconds for a model that it does not know, and raises various errors.
    with suppress(Exception):
        return dict(library.get_model_info(model))
    return {}


def provider_of(library: Any, model: str) -> str:
    """Return LiteLLM's name of the provider; empty if it knows none."""
    with suppress(Exception):  # LiteLLM raises various errors; the request reports them
        return str(library.get_llm_provider(model)[1])
    return ""
