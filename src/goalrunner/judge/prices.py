"""The price of texts in a prompt, and the parts of a text that a price allows."""

from __future__ import annotations

TOKEN = 3
"""The price of one token.

Prices are bytes of UTF-8: in prose, code and logs, a token has at least three.
"""

LEAST_EVIDENCE = 500
"""The least tokens for evidence, beside the goal."""

OVERHEAD = 20
"""Tokens that a provider adds around the two messages."""

SECOND_LOOK = 2
"""Requested observations may take this many times the tokens of the prompt."""


def price_in_bytes(text: str) -> int:
    """Return the price of a text. Prices of texts that are joined add up."""
    return len(text.encode("utf-8", "replace"))


def beginning(text: str, room: int) -> str:
    """Return the longest beginning that costs at most `room`."""
    room = max(0, room)
    # The cut may go through a character, whose bytes are ignored.
    data = text[:room].encode("utf-8", "replace")[:room]
    return text[: len(data.decode("utf-8", "ignore"))]


def ending(text: str, room: int) -> str:
    """Return the longest ending that costs at most `room`."""
    room = max(0, room)
    data = text[max(0, len(text) - room) :].encode("utf-8", "replace")
    data = data[max(0, len(data) - room) :]
    return text[len(text) - len(data.decode("utf-8", "ignore")) :]
