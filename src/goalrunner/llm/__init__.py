"""The only door to LiteLLM: calls, streams, prices, errors, scripted models, recordings.

Importing this package imports no LiteLLM; that happens inside the call that needs it, or early through `warm_up`.
"""

from __future__ import annotations

from goalrunner.llm.client import LLM
from goalrunner.llm.library import warm_up
from goalrunner.llm.recording import Tape
from goalrunner.llm.transport import Reply, ToolCall, ToolSpec

__all__ = ["LLM", "Reply", "Tape", "ToolCall", "ToolSpec", "warm_up"]
