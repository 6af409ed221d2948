"""The only access to LiteLLM: calls, streaming, prices, errors, scripted models and recordings.

Importing this package does not import LiteLLM: the first call does, or `warm_up` before it.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable
from contextlib import suppress

from goalrunner.llm import library
from goalrunner.llm.client import LLM, Reply, Tape, ToolCall, ToolSpec
from goalrunner.llm.outside import (
    ScriptedModel,
    as_model,
    is_custom,
    is_scripted,
    new_tape,
)
from goalrunner.llm.provider import ProviderModel

__all__ = [
    "LLM",
    "ProviderModel",
    "Reply",
    "Tape",
    "ToolCall",
    "ToolSpec",
    "as_model",
    "is_custom",
    "new_tape",
    "warm_up",
]


def _class_of(model: str) -> type[LLM]:
    return ScriptedModel if is_scripted(model) else ProviderModel


LLM.class_of = _class_of


def warm_up(models: Iterable[str]) -> None:
    """Begin to import LiteLLM in a thread if any of the models needs it. Return at once; never raise."""
    real = tuple(model for model in models if model and not is_scripted(model))

    def work() -> None:
        # The first call imports again, and raises the error.
        with suppress(Exception):
            for model in real:
                library.prepare_for(model)

    if real:
        with suppress(RuntimeError):  # no thread can be started
            thread = threading.Thread(target=work, name="litellm-import", daemon=True)
            thread.start()
            # A thread that is ended in the middle of an import keeps the import lock, for which finalizers would wait.
            atexit.register(thread.join)
