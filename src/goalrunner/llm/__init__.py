"""The only access to LiteLLM: calls, streaming, prices, errors, scripted models and recordings.

Importing this package does not import LiteLLM: the first call does, or `warm_up` before it.
"""

from __future__ import annotations

from goalrunner.llm.client import LLM
from goalrunner.llm.library import warm_up
from goalrunner.llm.outside import CustomModel, Tape, as_model, is_custom
from goalrunner.llm.transport import Reply, ToolCall, ToolSpec

__all__ = ["LLM", "CustomModel", "Reply", "Tape", "ToolCall", "ToolSpec", "as_model", "is_custom", "warm_up"]
