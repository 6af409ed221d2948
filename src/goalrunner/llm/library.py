"""Importing LiteLLM: once, early, quickly and in silence.

The import takes seconds, most of them spent by pydantic on some thousands of models. So it starts in a thread while
other work runs (`warm_up`), without garbage collection, and with pydantic told to build each model at its first use.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from goalrunner.llm.scripted import is_scripted

ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the prices are fetched over the network at import
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "true",  # the same for these
    "LITELLM_MODE": "PRODUCTION",  # else a .env in the current folder is loaded, and an agent could redirect the judge
}
"""Set before the import, whatever was there before."""

_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "litellm")

_OWN_PROTOCOL = frozenset({"anthropic", "bedrock", "gemini", "ollama", "ollama_chat", "sagemaker", "vertex_ai"})
"""Providers that LiteLLM translates messages for; the others are reached through OpenAI's client, or as it would."""

_WARNINGS = (
    # What its own modules, or pydantic on its types, find to say is no business of a user's.
    ("", r"litellm(\..*)?$"),
    (r".*`ReadOnly` qualifier", ""),
    (r"Pydantic serializer warnings", ""),
)

_lock = threading.Lock()
_library: Any = None


def litellm() -> Any:
    """LiteLLM itself, imported at the first call and shared by every thread."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _import()
    return _library


def imported() -> Any | None:
    """LiteLLM if it is imported by now; None else. Waits for nothing."""
    return _library


def has_own_protocol(model: str) -> bool:
    """Whether the model's provider speaks something else than OpenAI's chat format."""
    return model.partition("/")[0] in _OWN_PROTOCOL


def prepare(model: str) -> Any:
    """LiteLLM with all that the first call to this model would import; waits for it."""
    library = litellm()
    if not has_own_protocol(model):
        with _lock, _quick_import():
            # OpenAI's client loads some five hundred modules at its first use.
            importlib.import_module("openai.resources.chat.completions")
    return library


def warm_up(models: Iterable[str]) -> None:
    """Begin to import LiteLLM in a thread if any of the models needs it. Returns at once and never raises."""
    real = tuple(model for model in models if model and not is_scripted(model))
    if not real:
        return
    with contextlib.suppress(RuntimeError):  # no thread to be had: the first call imports
        threading.Thread(target=_prepare_quietly, args=(real,), name="litellm-import", daemon=True).start()


def hush() -> None:
    """Keep LiteLLM's warnings from users; again before each call, for the filters may have been replaced since."""
    for message, module in _WARNINGS:
        # Python drops an equal filter before it adds one, so this does not pile up.
        warnings.filterwarnings("ignore", message=message, module=module)


def _prepare_quietly(models: tuple[str, ...]) -> None:
    # What goes wrong here is said by the first call, which tries again.
    with contextlib.suppress(Exception):
        for model in models:
            prepare(model)


def _import() -> Any:
    os.environ.update(ENVIRONMENT)
    with _quick_import(), _filters_at_the_end():
        library = importlib.import_module("litellm")
        importlib.import_module("httpcore")
    _configure(library)
    return library


def _configure(library: Any) -> None:
    library.suppress_debug_info = True
    library.set_verbose = False
    library.telemetry = False
    # Without this some models' tokenizers are fetched over the network to count tokens.
    library.disable_hf_tokenizer_download = True
    # Its other transport leaves sessions open, which then complain at exit.
    library.disable_aiohttp_transport = True
    # Histories that a provider would refuse for their form (no text beside tool calls, say) are mended.
    library.modify_params = True
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1)
        logger.propagate = False


@contextlib.contextmanager
def _quick_import() -> Iterator[None]:
    with _no_collection(), _deferred_models(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _filters_at_the_end() -> Iterator[None]:
    """LiteLLM puts filters on other libraries' loggers as soon as it begins, and they import the rest of it when used.

    A record that another thread logs meanwhile would fail there, and so would the import. They are put on when it is whole.
    """
    waiting: list[tuple[logging.Filterer, Any]] = []
    add = logging.Filterer.addFilter

    def wait(logger: logging.Filterer, what: Any) -> None:
        if type(what).__module__.startswith("litellm"):
            waiting.append((logger, what))
        else:
            add(logger, what)

    setattr(logging.Filterer, "addFilter", wait)  # noqa: B010 - a method is not assigned to
    try:
        yield
    finally:
        setattr(logging.Filterer, "addFilter", add)  # noqa: B010
    for logger, what in waiting:
        logger.addFilter(what)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            # What a module holds stays for good. Else the next collections walk through all of it, for a second in all.
            gc.freeze()
            gc.enable()


@contextlib.contextmanager
def _deferred_models() -> Iterator[None]:
    """Pydantic's own default for `defer_build`, on for a while. Where it has moved, the import is only slower."""
    try:
        defaults = importlib.import_module("pydantic._internal._config").config_defaults
        before = defaults["defer_build"]
    except (ImportError, AttributeError, KeyError, TypeError):
        yield
        return
    defaults["defer_build"] = True
    try:
        yield
    finally:
        defaults["defer_build"] = before
