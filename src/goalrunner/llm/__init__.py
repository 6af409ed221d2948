"""Models, and the only access to LiteLLM.

`client` has the base class `LLM`. `provider` calls models through LiteLLM, `scripted`
plays recordings, and `outside` asks functions and other frameworks; another source of
answers is a subclass of `LLM` beside them. `endpoints` finds keys and addresses,
`prices` counts dollars, and `failure` classifies what goes wrong. Importing this
package does not import LiteLLM: the first call does, or `warm_up` before it.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable
from contextlib import suppress

from goalrunner.llm import library
from goalrunner.llm.client import LLM, Tape
from goalrunner.llm.outside import as_model, is_custom
from goalrunner.llm.provider import ProviderModel
from goalrunner.llm.requests import Reply, ToolCall, ToolSpec
from goalrunner.llm.scripted import ScriptedModel, is_scripted, new_tape

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
    """Return the subclass for a model's name."""
    return ScriptedModel if is_scripted(model) else ProviderModel


LLM.class_of = _class_of


def warm_up(models: Iterable[str]) -> None:
    """Begin to import LiteLLM in a thread if any of the models needs it.

    Return at once; never raise.
    """
    provider_models = []
    for model in models:
        if model and not is_scripted(model):
            provider_models.append(model)

    def work() -> None:
        # The first call imports again, and raises the error.
        with suppress(Exception):
            for model in provider_models:
                library.prepare_for(model)

    if not provider_models:
        return
    # If no thread can be started, the first call imports.
    with suppress(RuntimeError):
        thread = threading.Thread(target=work, name="litellm-import", daemon=True)
        thread.start()
        # A thread that is ended in the middle of an import keeps the import lock, for
        # which finalizers would wait.
        atexit.register(thread.join)
