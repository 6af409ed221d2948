"""The only access to LiteLLM: calls, streaming, prices, errors, scripted models and recordings.

Importing this package does not import LiteLLM: the first call does, or `warm_up` before it.
"""

from __future__ import annotations

from goalrunner.llm.client import LLM, Reply, Tape, ToolCall, ToolSpec
from goalrunner.llm.library import warm_up
from goalrunner.llm.outside import ScriptedModel, as_model, is_custom, is_scripted, new_tape
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
