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
        # No name is given to a line: a long one is let go as soon as it is read.
        return [message for message in map(message_in, self._lines.feed(piece)) if message is not None]


def message_in(line: str | None) -> dict[str, Any] | None:
    """The JSON object that a line holds; None for anything else, and for no line."""
    try:
        value = json.loads(line or "")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
