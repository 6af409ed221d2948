"""A temporary file for the texts of a transcript."""

from __future__ import annotations

import os
import weakref
from array import array
from tempfile import TemporaryFile, gettempdir

from goalrunner.core.errors import UsageError

__all__ = ["TextStore"]


class TextStore:
    """Texts in a temporary file, so that a long transcript needs little memory."""

    def __init__(self) -> None:
        # Without a name, so that a process that is killed leaves no file behind.
        self._file = TemporaryFile()  # noqa: SIM115
        # The file must outlive this function; it is closed with this object.
        weakref.finalize(self, self._file.close)
        self._offsets = array("Q", [0])
        """By number of a text: where it begins; last, where the next one will."""

    def add(self, text: str) -> int:
        """Store a text and return its number.

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
        self._offsets.append(self._offsets[-1] + len(data))
        return len(self._offsets) - 2

    def read(self, number: int) -> str:
        """Return the text with the number that `add` returned."""
        begin, end = self._offsets[number : number + 2]
        return os.pread(self._file.fileno(), end - begin, begin).decode()
