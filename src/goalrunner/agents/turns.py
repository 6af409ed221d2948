"""One turn at a time. Owns the refusal of a second one while the first goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from goalrunner.errors import ConversationBusy


class Turns:
    """The turns of one conversation."""

    def __init__(self) -> None:
        self._under_way = False

    @contextmanager
    def one(self) -> Iterator[None]:
        """Within it a turn goes on. Raises ConversationBusy where one does already."""
        if self._under_way:
            raise ConversationBusy("this conversation is in the middle of a turn", "wait for it, or use another one")
        self._under_way = True
        try:
            yield
        finally:
            self._under_way = False
