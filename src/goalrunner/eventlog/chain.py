"""The chain of a log: each line names the line before it by its hash. Owns the hash; reads and writes no file.

It finds damage: a line that was changed, exchanged or left out no longer fits the next one. It is no signature: whoever
may write the whole file can write a new chain.
"""

from __future__ import annotations

import hashlib

_LENGTH = 16
"""Hexadecimal digits: chance is ruled out, and a line stays short."""


def link(line: bytes) -> str:
    """What the next line says of this one, given without its newline; `link(b"")` is what the first line says."""
    return hashlib.sha256(line).hexdigest()[:_LENGTH]


BEGINNING = link(b"")
