"""Names of files as text. Owns the one form in which a path is shown, compared with patterns and written as JSON.

A name on disk is any bytes. Its text form is UTF-8 where that can be read and printed; a backslash, a control character,
an unprintable one and a byte that is no UTF-8 become `\\xNN`, byte for byte. So every name has one form, every form one
name, and no name can break a line or drive a terminal.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def shown(name: bytes) -> str:
    """The text form of a path: `caf\\xe9`, `two\\x0alines`."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = name.decode(errors="surrogateescape")
    else:
        if text.isprintable() and "\\" not in text:
            return text
    return "".join(_character(character) for character in text)


def raw(path: str) -> bytes:
    """The bytes of a path on disk: the inverse of `shown`."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), path.encode(errors="surrogateescape"))


def _character(character: str) -> str:
    if character.isprintable() and character != "\\":
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))
