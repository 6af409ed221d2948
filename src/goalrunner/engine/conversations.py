"""Which run uses a conversation, and the conversation of a run without an agent."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from goalrunner.core.agent_ports import Conversation, Message, Recorder, RoundReply
from goalrunner.core.errors import ConversationBusy, GoalError

# By identity: a conversation of a caller need not be hashable.
_used_conversations: set[int] = set()


def refuse_driven(conversation: Conversation) -> None:
    """Raise ConversationBusy if another run uses this conversation."""
    if id(conversation) in _used_conversations:
        raise ConversationBusy(
            "this conversation is already used by another run",
            "wait for the other run to end, or give this run its own conversation",
        )


@contextlib.contextmanager
def exclusive(conversation: Conversation) -> Iterator[None]:
    """Use a conversation exclusively. Raise ConversationBusy if another run uses it."""
    refuse_driven(conversation)
    _used_conversations.add(id(conversation))
    try:
        yield
    finally:
        _used_conversations.discard(id(conversation))


ONLY_CHECKS = "only the checks were wanted"
"""The error of a run without an agent in which the agent would have to work."""


class NoAgent:
    """A conversation whose agent never gets a prompt.

    Only its checks run, or the calling program drives it.
    """

    def __init__(
        self, name: str = "none", *, live: bool = False, sees_files: bool = True
    ) -> None:
        """`sees_files`: whether the files of the agent are in a known folder here."""
        self.name, self.live, self.sees_files = name, live, sees_files
        self.messages: Sequence[Message] = ()

    async def send(self, prompt: str, recorder: Recorder) -> RoundReply:
        raise GoalError(ONLY_CHECKS)

    def checkpoint(self) -> object:
        """Return nothing."""

    def restore(self, checkpoint: object) -> None:
        """Do nothing."""
