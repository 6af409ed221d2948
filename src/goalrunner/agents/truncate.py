"""Truncation of long texts, whole or growing, with the omission marked."""

from __future__ import annotations

from collections import deque

LONGEST_MESSAGE = 400_000
"""Characters of one message that are kept."""


def _mark(number: int) -> str:
    return f"\n[... {number:,} characters left out ...]\n"


def shortened(text: str, limit: int) -> str:
    """Return the text, or the first third and the last two thirds of `limit` characters."""
    if len(text) <= limit:
        return text
    head = limit // 3
    return f"{text[:head]}{_mark(len(text) - limit)}{text[head - limit :]}"


class GrowingText:
    """A text that arrives in pieces, truncated like `shortened` in bounded memory."""

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
        text = self._head + (_mark(self._omitted) if self._omitted else "") + "".join(self._tail)
        self._head, self._tail_length, self._omitted = "", 0, 0
        self._tail.clear()
        return text
