"""The text form of paths, whose bytes may be anything but NUL."""

from __future__ import annotations

import re


def printable_path(name: bytes) -> str:
    """Return the text form of a path, such as `caf\\xe9` or `two\\x0alines`."""
    text = name.decode(errors="surrogateescape")
    # Nearly all paths are of this kind.
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    if character.isprintable() and character != "\\":
        return character
    data = character.encode(errors="surrogateescape")
    return "".join(f"\\x{byte:02x}" for byte in data)


def raw(path: str) -> bytes:
    """Return the bytes of a path: the inverse of `printable_path`."""
    data = path.encode(errors="surrogateescape")
    return re.sub(rb"\\x([0-9a-f]{2})", _byte, data)


def _byte(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape[1], 16)])
