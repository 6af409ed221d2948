"""Messages out of bytes: one JSON object a line. Owns reading a line; banners, bad JSON and endless lines are left out."""

from __future__ import annotations

import json
from typing import Any

from goalrunner.agents.external.lines import Lines

LONGEST_MESSAGE = 128_000_000
"""Bytes. A longer line is left out, and never in memory as a whole."""


class Messages:
    """Collects pieces of a stream and gives the messages in it. `longest` in bytes."""

    def __init__(self, longest: int = LONGEST_MESSAGE) -> None:
        self._lines = Lines(longest)

    def feed(self, piece: bytes) -> list[dict[str, Any]]:
        """The messages that end within the piece."""
        lines = (line for line in self._lines.feed(piece) if line is not None)
        return [message for message in map(message_in, lines) if message is not None]


def message_in(line: bytes) -> dict[str, Any] | None:
    """The JSON object that a line holds; None for anything else. Bytes that are no UTF-8 become U+FFFD."""
    try:
        value = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
