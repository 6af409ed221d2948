"""Truncation of long texts, whole or growing, with the omission marked."""

from __future__ import annotations

from collections import deque

LONGEST_MESSAGE = 400_000
"""Characters of one message that are kept."""


class GrowingText:
    """A text that arrives in pieces, of which the first third and the last two thirds of `limit` characters are kept."""

    def __init__(self, limit: int = LONGEST_MESSAGE) -> None:
        self._head_room = limit // 3
        self._tail_room = limit - limit // 3
        self._head = ""
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self._omitted = 0

    def add(self, piece: str) -> None:
        """Append a piece."""
        room = self._head_room - len(self._head)
        self._head += piece[:room]
        if piece := piece[room:]:
            self._tail.append(piece)
            self._tail_length += len(piece)
        while (excess := self._tail_length - self._tail_room) > 0:
            oldest = self._tail.popleft()
            if len(oldest) > excess:
                self._tail.appendleft(oldest[excess:])
            dropped = min(excess, len(oldest))
            self._tail_length -= dropped
            self._omitted += dropped

    def take(self) -> str:
        """Return what is kept, and begin anew."""
        mark = f"\n[... {self._omitted:,} characters left out ...]\n" if self._omitted else ""
        text = self._head + mark + "".join(self._tail)
        self._head, self._tail_length, self._omitted = "", 0, 0
        self._tail.clear()
        return text


def shortened(text: str, limit: int) -> str:
    """Return the text, or the first third and the last two thirds of `limit` characters."""
    growing = GrowingText(limit)
    growing.add(text)
    return growing.take()
