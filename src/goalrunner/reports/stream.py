"""A stream whose reader may go away: `goal run ... | head`, a terminal that hangs up. Owns that this ends no run."""

from __future__ import annotations

from typing import TextIO


class EnduringStream:
    """Writes as long as somebody reads, and then no more. Has what Rich needs of a text file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.gone = False

    @property
    def encoding(self) -> str:
        """The encoding of the stream beneath."""
        return self._stream.encoding or "utf-8"

    def write(self, text: str) -> int:
        """Write the text, if anybody is there."""
        if not self.gone:
            try:
                self._stream.write(text)
            except (OSError, ValueError):  # a broken pipe, a full disk, a stream that was closed
                self.gone = True
        return len(text)

    def flush(self) -> None:
        """Let the reader have it."""
        if not self.gone:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self.gone = True

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The descriptor beneath."""
        return self._stream.fileno()
