"""The marker that replaces a secret."""

from __future__ import annotations

MARKER = "[redacted:"
"""The beginning of every replacement; the kind and a bracket follow."""


def marker_of(kind: str) -> bytes:
    """Return the replacement of a secret of this kind: `[redacted:github token]`."""
    return f"{MARKER}{kind}]".encode("utf-8", "replace")


def is_redacted(text: str) -> bool:
    """Return whether something was replaced in a text."""
    return MARKER in text
