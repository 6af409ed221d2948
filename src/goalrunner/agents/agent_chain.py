"""Several external agents as one conversation.

One of them works, and the next one can take over.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from goalrunner.agents.external_chat import ExternalConversation
from goalrunner.core.agent_ports import (
    Closing,
    Message,
    Pausing,
    Recorder,
    RoundReply,
    Unfinished,
)


class AgentChain:
    """The agents of a goal, in the order in which they take over.

    Implements the ports `Conversation`, `Resumable`, `Switching`, `Pausing` and
    `Closing` with the agent at work.
    """

    def __init__(
        self, conversations: Sequence[ExternalConversation], at_work: int = 0
    ) -> None:
        self._conversations = tuple(conversations)
        self._current = self._conversations[at_work]
        # A resumed run may begin with a later agent, whose chat an earlier one began.
        self._current.follows_another = at_work > 0

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self._current.messages

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        """Run one round with the agent at work. Raise as its conversation does."""
        return await self._current.send(prompt, recorder)

    async def resume_turn(
        self, notice: str, unfinished: Unfinished, recorder: Recorder
    ) -> RoundReply:
        """Continue an interrupted turn of the agent at work."""
        return await self._current.resume_turn(notice, unfinished, recorder)

    def load(
        self, messages: Sequence[Message], unfinished: Unfinished, recorder: Recorder
    ) -> None:
        """Continue the recorded chat, and the session of the agent at work if any."""
        self._current.load(messages, unfinished, recorder)

    def adopt_history(self, messages: Sequence[Message], recorder: Recorder) -> None:
        """Begin with the chat of another run."""
        self._current.adopt_history(messages, recorder)

    async def switch(self, index: int) -> None:
        """Let the agent with that index continue the chat, in a new session."""
        earlier = self._current
        # Two agents must never work in one workspace at the same time.
        await self.close()
        self._current = self._conversations[index]
        self._current.take_over(earlier.messages)

    def checkpoint(self) -> tuple[dict[str, Any], ...]:
        """Return the chat so far, without the agent's own session."""
        return self._current.checkpoint()

    def restore(self, checkpoint: object) -> None:
        """Return to a checkpoint, which may be that of an earlier agent."""
        self._current.restore(checkpoint)

    def paused(self) -> AbstractContextManager[None]:
        """Stop the processes of the agent at work while the context is open."""
        if isinstance(self._current, Pausing):
            return self._current.paused()
        return nullcontext()

    async def close(self) -> None:
        """End the processes of the agent at work."""
        if isinstance(self._current, Closing):
            await self._current.close()
