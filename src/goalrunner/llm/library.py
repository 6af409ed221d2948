"""The import of LiteLLM, once and without output."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from goalrunner.system import owns_process

ENVIRONMENT = {
    # Else the prices are fetched over the network at import.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # Else these are fetched as well.
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "true",
    # Else a .env in the current folder is loaded, and an agent could redirect the
    # judge.
    "LITELLM_MODE": "PRODUCTION",
}
"""Set during the import; existing values are replaced.

In a process of its own, `goal` leaves them set.
"""

# Loggers of other packages to which LiteLLM adds filters early in its import; the
# filters import the rest of LiteLLM. They are disabled during the import, because a
# record that another thread logs meanwhile would make both imports fail.
_FILTERED_LOGGERS = (
    "apscheduler.executors.default",
    "apscheduler.scheduler",
    "asyncio",
    "backoff",
    "httpx",
    "uvicorn.access",
    "uvicorn.error",
)

# Providers for which LiteLLM translates messages; the others take OpenAI's format.
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

# Message and module of warnings about LiteLLM's own code.
_WARNINGS = (
    ("", r"litellm(\..*)?$"),
    (r".*`ReadOnly` qualifier", ""),
    (r"Pydantic serializer warnings", ""),
)

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
    """Return LiteLLM, with everything imported that the first call of a model needs."""
    library = litellm()
    silence_warnings()
    if not has_own_protocol(model):
        with _lock, _quick_import():
            # OpenAI's client imports some five hundred modules at its first use.
            importlib.import_module("openai.resources.chat.completions")
    return library


def silence_warnings() -> None:
    """Hide LiteLLM's warnings, which may be errors in a test.

    Call it before each use: a program may replace the filters.
    """
    for message, module in _WARNINGS:
        # Python removes an equal filter before it adds one.
        warnings.filterwarnings("ignore", message=message, module=module)


def _import() -> Any:
    try:
        with _environment(), _quick_import():
            library: Any = importlib.import_module("litellm")
            importlib.import_module("httpcore")
    except BaseException:
        # Python keeps the submodules that were imported, and with them a later import
        # would fail.
        for name in list(sys.modules):
            if name.partition(".")[0] == "litellm":
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
    """Set LiteLLM up for a process that is our own.

    What must hold in every process is passed with each request.
    """
    library.suppress_debug_info = True
    library.set_verbose = False
    library.telemetry = False
    # Otherwise LiteLLM fetches some models' tokenizers over the network to count
    # tokens.
    library.disable_hf_tokenizer_download = True
    # LiteLLM's other transport leaves sessions open, which warn at exit.
    library.disable_aiohttp_transport = True
    # LiteLLM adapts histories that a provider would refuse, such as tool calls without
    # text.
    library.modify_params = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "litellm"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1)
        logger.propagate = False


@contextmanager
def _quick_import() -> Iterator[None]:
    """Import without garbage collection, which takes a third of it, and warnings."""
    was_enabled = gc.isenabled()
    loggers = []
    for name in _FILTERED_LOGGERS:
        logger = logging.getLogger(name)
        if not logger.disabled:
            loggers.append(logger)
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
        if was_enabled:
            if owns_process():
                # The objects of modules are never freed, so later collections can skip
                # them.
                gc.freeze()
            gc.enable()


@contextmanager
def _deferred_models() -> Iterator[None]:
    """Let pydantic models be built at their first use.

    For LiteLLM's thousands, this saves a sixth of the import.
    """
    # Pydantic's default for that is not public; in a version without it, nothing is
    # deferred.
    defaults: dict[str, Any] = {}
    if owns_process():
        with suppress(ImportError, AttributeError):
            config = importlib.import_module("pydantic._internal._config")
            defaults = config.config_defaults
    before = defaults.get("defer_build")
    defaults["defer_build"] = True
    try:
        yield
    finally:
        defaults["defer_build"] = before
