"""One file of a snapshot. Owns its shape."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """What a snapshot knows of one path. Equal entries, equal files."""

    mode: str
    """As git writes it: 100644 a file, 100755 an executable one, 120000 a symbolic link, 000000 an unreadable path."""
    blob: str
    """The id of the content in the store; of a path that is not stored its SHA-256, of an unreadable one nothing."""
    stored: bool = True
    """False: known, but without its content: too large, unreadable, or of a name that git cannot hold."""
