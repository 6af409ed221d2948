"""The file of a transcript: its text, read once and within a size limit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from goalrunner.core.errors import UsageError

Deliverable = Literal["workspace", "response"]

HINT = (
    "Supported formats: the transcript.jsonl of a run; OpenAI chat messages as a JSON array, "
    'as {"messages": [...]}, or as JSON Lines.'
)

SIZE_LIMIT = 64_000_000
"""Bytes of a transcript that are read; a bigger one would take many times its size in memory."""

_PROBE = 8_000
"""Bytes that distinguish a text from a binary file."""


@dataclass(frozen=True)
class Source:
    """The file of a transcript."""

    path: Path
    size_limit: int = SIZE_LIMIT

    @cached_property
    def is_binary(self) -> bool:
        """Whether it is an archive, a picture or the like. Raises UsageError if it cannot be read."""
        head = self._data(_PROBE)
        return b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff"))

    @cached_property
    def text(self) -> str:
        """The file as UTF-8. Raises UsageError if it is too big, not UTF-8, or cannot be read."""
        data = self._data(self.size_limit + 1)
        if len(data) > self.size_limit:
            raise UsageError(
                f"{self.path}: the transcript is bigger than {self.size_limit // 1_000_000} MB",
                "Cut it to the messages that matter, the last ones above all.",
            )
        try:
            return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise UsageError(f"{self.path}:{line}  the transcript is not UTF-8", "Convert it to UTF-8.") from None

    def error(self, message: str, line: int = 0) -> UsageError:
        """Return an error with the file and, unless it is 0, the line."""
        return UsageError(f"{self.path}:{line}  {message}" if line else f"{self.path}  {message}", HINT)

    def _data(self, size: int) -> bytes:
        try:
            with self.path.open("rb") as file:
                return file.read(size)
        except OSError as error:
            raise UsageError(
                f"{self.path}: cannot read the transcript: {error.strerror or error}",
                "Name a file that exists and can be read.",
            ) from None
