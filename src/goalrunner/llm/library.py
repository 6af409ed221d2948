"""The import of LiteLLM: once, early in a thread, without garbage collection, and without output."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from goalrunner.llm.scripted import is_scripted

ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the prices are fetched over the network at import
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "true",  # the same for these
    "LITELLM_MODE": "PRODUCTION",  # else a .env in the current folder is loaded, and an agent could redirect the judge
}
"""Set before the import, whatever was set before."""

_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "litellm")

_FILTERED_LOGGERS = (
    "apscheduler.executors.default",
    "apscheduler.scheduler",
    "asyncio",
    "backoff",
    "httpx",
    "uvicorn.access",
    "uvicorn.error",
)
"""Loggers of others to which LiteLLM adds filters at the beginning of its import; the filters import the rest of it."""

_OWN_PROTOCOL = frozenset({"anthropic", "bedrock", "gemini", "ollama", "ollama_chat", "sagemaker", "vertex_ai"})
"""Providers for which LiteLLM translates messages; the others take OpenAI's format."""

_WARNINGS = (
    ("", r"litellm(\..*)?$"),
    (r".*`ReadOnly` qualifier", ""),
    (r"Pydantic serializer warnings", ""),
)
"""Message and module of warnings about LiteLLM's own code."""

_lock = threading.Lock()
_library: Any = None


def litellm() -> Any:
    """Return LiteLLM, imported at the first call and shared by all threads."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = _import()
    return _library


def imported() -> Any | None:
    """Return LiteLLM if it is imported by now, else None. Does not wait."""
    return _library


def has_own_protocol(model: str) -> bool:
    """Return whether the model's provider takes another format than OpenAI's."""
    return model.partition("/")[0] in _OWN_PROTOCOL


def prepare(model: str) -> Any:
    """Return LiteLLM, with everything imported that the first call of this model needs."""
    library = litellm()
    if not has_own_protocol(model):
        with _lock, _quick_import():
            # OpenAI's client imports some five hundred modules at its first use.
            importlib.import_module("openai.resources.chat.completions")
    return library


def warm_up(models: Iterable[str]) -> None:
    """Begin to import LiteLLM in a thread if any of the models needs it. Return at once; never raise."""
    real = tuple(model for model in models if model and not is_scripted(model))

    def work() -> None:
        # The first call tries again, and raises then.
        with suppress(Exception):
            for model in real:
                prepare(model)

    if real:
        with suppress(RuntimeError):  # no thread can be started
            threading.Thread(target=work, name="litellm-import", daemon=True).start()


def silence_warnings() -> None:
    """Hide LiteLLM's warnings; again before each call, since the filters may have been replaced."""
    for message, module in _WARNINGS:
        # Python removes an equal filter before it adds one.
        warnings.filterwarnings("ignore", message=message, module=module)


def _import() -> Any:
    os.environ.update(ENVIRONMENT)
    with _quick_import(), _delayed_records():
        library: Any = importlib.import_module("litellm")
        importlib.import_module("httpcore")
    library.suppress_debug_info = True
    library.set_verbose = False
    library.telemetry = False
    # Otherwise some models' tokenizers are fetched over the network to count tokens.
    library.disable_hf_tokenizer_download = True
    # LiteLLM's other transport leaves sessions open, which warn at exit.
    library.disable_aiohttp_transport = True
    # Histories whose form a provider would refuse are adapted, such as no text beside tool calls.
    library.modify_params = True
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1)
        logger.propagate = False
    return library


@contextmanager
def _quick_import() -> Iterator[None]:
    """Import without garbage collection, which takes a third of the import, and without warnings."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if enabled:
            # What modules hold stays for good: later collections need not visit it.
            gc.freeze()
            gc.enable()


class _Delayed(logging.Filter):
    """Holds the records of a logger back."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record, and let the logger drop it."""
        self.records.append(record)
        return False


@contextmanager
def _delayed_records() -> Iterator[None]:
    """Delay the records of other libraries until the import is over, and remove LiteLLM's filters if it fails.

    A record that another thread logs meanwhile would run a filter that imports LiteLLM: both imports would fail.
    """
    delayed = {logging.getLogger(name): _Delayed() for name in _FILTERED_LOGGERS}
    for logger, holder in delayed.items():
        logger.addFilter(holder)
    try:
        yield
    except BaseException:
        for logger in delayed:
            for added in [each for each in logger.filters if type(each).__module__.startswith("litellm")]:
                logger.removeFilter(added)
        raise
    finally:
        for logger, holder in delayed.items():
            logger.removeFilter(holder)
            for record in holder.records:
                logger.handle(record)
