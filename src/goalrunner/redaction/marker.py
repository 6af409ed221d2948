"""What stands in place of a secret. Owns its form; replaces nothing."""

from __future__ import annotations

MARKER = "[redacted:"
"""How every replacement begins; the kind and a bracket follow."""


def marker_of(kind: str) -> bytes:
    """What stands in place of a secret of this kind: `[redacted:github token]`."""
    return f"{MARKER}{kind}]".encode("utf-8", "replace")


def is_redacted(text: str) -> bool:
    """Whether something was replaced in a text."""
    return MARKER in text
