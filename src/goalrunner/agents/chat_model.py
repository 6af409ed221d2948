"""What the built-in agent needs of a model. Owns the Protocol alone; `goalrunner.llm.LLM` has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from goalrunner.llm import Reply, ToolSpec
from goalrunner.model.usage import Usage
from goalrunner.ports import Message


class ChatModel(Protocol):
    """A model that answers a chat, with its own account."""

    @property
    def usage(self) -> Usage:
        """The running account."""
        ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer the chat. Raises ModelError."""
        ...

    def context_window(self) -> int | None:
        """Tokens of input that it takes; None when unknown."""
        ...
