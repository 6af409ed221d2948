"""One driver for each conversation in a process. Owns which are being driven."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from goalrunner.errors import ConversationBusy
from goalrunner.ports import Conversation

_driven: set[int] = set()


def refuse_driven(conversation: Conversation) -> None:
    """Raises ConversationBusy where another driver is at work on this conversation."""
    if id(conversation) in _driven:
        raise ConversationBusy(
            "this conversation is already being driven",
            "wait for the other run to end, or give this run its own conversation",
        )


@contextmanager
def exclusive(conversation: Conversation) -> Iterator[None]:
    """Drive a conversation alone. Raises ConversationBusy where another driver is at work on it."""
    refuse_driven(conversation)
    key = id(conversation)
    _driven.add(key)
    try:
        yield
    finally:
        _driven.discard(key)
