"""A temporary file for the texts of a transcript."""

from __future__ import annotations

import os
import weakref
from tempfile import NamedTemporaryFile, gettempdir

from goalrunner.core.errors import UsageError

__all__ = ["TextStore"]


class TextStore:
    """Texts in a temporary file, so that a long transcript needs little memory."""

    def __init__(self) -> None:
        self._file = NamedTemporaryFile(prefix="goal-transcript-")  # noqa: SIM115
        # The file must outlive this function; it is removed with this object.
        weakref.finalize(self, self._file.close)
        self._end = 0

    def add(self, text: str) -> tuple[int, int]:
        """Store a text and return its offset and its length in bytes.

        Raise UsageError if the disk is full.
        """
        data = text.encode(errors="replace")
        try:
            self._file.write(data)
            # `read` bypasses the buffer of the file object.
            self._file.flush()
        except OSError as error:
            reason = error.strerror or error
            folder = gettempdir()
            raise UsageError(
                f"the texts of the transcript cannot be stored in {folder}: {reason}",
                "free some space there, or set TMPDIR to another folder",
            ) from None
        begin = self._end
        self._end += len(data)
        return begin, len(data)

    def read(self, place: tuple[int, int]) -> str:
        """Return the text at the offset and length that `add` returned."""
        begin, length = place
        return os.pread(self._file.fileno(), length, begin).decode()
