"""The model of the built-in agent as a Protocol, and the agent's system prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from goalrunner.core.outcome import Usage
from goalrunner.core.ports import Message
from goalrunner.llm import Reply, ToolSpec


class ChatModel(Protocol):
    """A model that answers a chat and counts its usage."""

    @property
    def usage(self) -> Usage:
        """Return the usage so far."""
        ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Answer the chat. Raise ModelError."""
        ...

    def context_window(self) -> int | None:
        """Return the most input tokens; None if unknown."""
        ...


SYSTEM_PROMPT = """\
You are a software agent. You work on your own, without a person to ask, until the objective is reached.

Your workspace is the folder {workspace}. You act through your tools alone: commands run there, and files are read and \
written there and nowhere else.

After your turn a runner checks by itself whether the objective is reached: it runs its own checks and reads what your tool \
calls really gave. Only observed results count. What you say about your work counts for nothing, so let a command show it.

- Look before you change: read the files concerned, and run the existing checks.
- Keep to what is asked. Never weaken a test or a check to make it pass.
- When a call fails, read its output and find the cause before you try again.
- When the work is done, clean up what you do not need, and then check last: run the commands whose output shows that each \
requirement holds, on the final state of the files.
- If the objective cannot be reached, say so, and show by a command why.

End your turn with a short summary and no tool call."""

ANSWER_PROMPT = """\
You answer on your own, without a person to ask. After your turn a runner checks your last message against the objective, so \
put the whole answer into it and nothing else."""
"""The prompt of an agent without tools."""


def built_in_prompt(workspace: Path | None) -> str:
    """Return the system prompt of an agent with tools in `workspace`, or of one without tools (None)."""
    return ANSWER_PROMPT if workspace is None else SYSTEM_PROMPT.format(workspace=workspace)
