"""Bytes cut into lines, at newlines alone. Owns the bound: a line that is longer is dropped, whatever its length."""

from __future__ import annotations

from collections.abc import Iterator

LONGEST_LINE = 1 << 26
"""Bytes."""


class Lines:
    """Holds the beginning of the line that is not over yet, and no more than `longest` bytes of it."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.longest = longest
        self._held: list[bytes] = []
        self._length = 0
        self._dropped = False

    def feed(self, piece: bytes) -> Iterator[bytes | None]:
        """The lines that are whole now, without their newlines; None for one that was too long."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._hold(piece[start:end])
            start = end + 1
            yield self._take()
        self._hold(piece[start:])

    def end(self) -> Iterator[bytes | None]:
        """The rest, where there is one."""
        if self._length or self._dropped:
            yield self._take()

    def _hold(self, part: bytes) -> None:
        if self._dropped or not part:
            return
        self._length += len(part)
        if self._length > self.longest:
            self._held.clear()
            self._dropped = True
        else:
            self._held.append(part)

    def _take(self) -> bytes | None:
        line = None if self._dropped else b"".join(self._held)
        self._held, self._length, self._dropped = [], 0, False
        return line
