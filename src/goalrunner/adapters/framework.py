"""What the conversations of all frameworks have in common."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from goalrunner.agents.external_chat import GO_ON
from goalrunner.core.agent_ports import Message, Recorder, RoundReply, Unfinished
from goalrunner.core.outcome import Usage


def framework_module(module: str, extra: str) -> Any:
    """Import a module of a framework.

    Raise ImportError with the command that installs it.
    """
    try:
        # Imported on use: an extra installs the framework.
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} cannot be imported ({error}); "
            f"run: pip install 'goalrunner[{extra}]'"
        ) from error


class FrameworkConversation:
    """The base class of the frameworks' conversations.

    Subclasses add `send`, `load` and checkpoints.
    """

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Give the agent a user message and let it work until it answers."""
        raise NotImplementedError

    def load(
        self, messages: Sequence[Message], unfinished: Unfinished, recorder: Recorder
    ) -> None:
        """Continue the chat that an earlier process recorded."""
        raise NotImplementedError

    def adopt_history(self, messages: Sequence[Message], recorder: Recorder) -> None:
        """Start with the chat of another run, recorded as the start of this one."""
        self.load(messages, Unfinished(), recorder)
        for message in messages:
            recorder.message(message)

    async def resume_turn(
        self, notice: str, unfinished: Unfinished, recorder: Recorder
    ) -> RoundReply:
        """Continue an interrupted turn."""
        # The framework itself reports calls without a result to the model.
        return await self.send(notice or GO_ON, recorder)


def usage_of(
    input_tokens: int, output_tokens: int, calls: int, cost: float | None = None
) -> Usage:
    """Return the usage of `calls` calls. `cost` is in US dollars."""
    # No call uses zero tokens or dollars: the framework did not get the numbers.
    is_counted = bool(input_tokens or output_tokens)
    if calls and not cost:
        cost = None
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=cost,
        calls=calls,
        uncounted_calls=0 if is_counted else calls,
    )
