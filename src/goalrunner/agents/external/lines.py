"""Bytes cut into lines of text, at newlines alone. Owns the bound: a line that is longer is dropped, whatever its length."""

from __future__ import annotations

from collections.abc import Iterator

LONGEST_LINE = 1 << 26
"""Bytes."""


class Lines:
    """Holds the beginning of the line that is not over yet, and no more than `longest` bytes of it.

    A line is given as text, of which bytes that are no UTF-8 are U+FFFD: nothing else of it is held then.
    """

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.longest = longest
        self._held = bytearray()
        self._dropped = False

    def feed(self, piece: bytes) -> Iterator[str | None]:
        """The lines that are whole now, without their newlines; None for one that was too long."""
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            self._hold(piece[start:end])
            start = end + 1
            yield self._take()
        self._hold(piece[start:])

    def end(self) -> Iterator[str | None]:
        """The rest, where there is one."""
        if self._held or self._dropped:
            yield self._take()

    def _hold(self, part: bytes) -> None:
        if self._dropped or not part:
            return
        if len(self._held) + len(part) > self.longest:
            self._held = bytearray()
            self._dropped = True
        else:
            self._held += part

    def _take(self) -> str | None:
        line = None if self._dropped else self._held.decode("utf-8", "replace")
        self._held, self._dropped = bytearray(), False
        return line
