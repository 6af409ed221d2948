"""Text of any length in a bounded room: its beginning, its end, and how much is missing between them. Pure."""

from __future__ import annotations

from collections import deque

MESSAGE = 400_000
"""Characters of one message that are kept."""


def shortened(text: str, limit: int) -> str:
    """The text, or its two ends with the omission marked; `limit` in characters, the mark not counted."""
    if len(text) <= limit:
        return text
    head = limit // 3
    tail = limit - head
    return f"{text[:head]}{_mark(len(text) - limit)}{text[-tail:]}"


class Growing:
    """A text that comes in pieces. Keeps a third of `limit` characters of its beginning, and the rest of its end."""

    def __init__(self, limit: int = MESSAGE) -> None:
        self._head_room = limit // 3
        self._tail_room = limit - limit // 3
        self._head = ""
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self._omitted = 0

    def add(self, piece: str) -> None:
        """More of it."""
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail.append(piece)
            self._tail_length += len(piece)
        while self._tail_length > self._tail_room:
            self._drop(self._tail_length - self._tail_room)

    def take(self) -> str:
        """All of it that is kept; afterwards there is nothing."""
        mark = _mark(self._omitted) if self._omitted else ""
        text = self._head + mark + "".join(self._tail)
        self._head, self._tail_length, self._omitted = "", 0, 0
        self._tail.clear()
        return text

    def _drop(self, number: int) -> None:
        oldest = self._tail.popleft()
        if len(oldest) > number:
            self._tail.appendleft(oldest[number:])
        dropped = min(number, len(oldest))
        self._tail_length -= dropped
        self._omitted += dropped


def _mark(number: int) -> str:
    return f"\n[... {number:,} characters left out ...]\n"
