"""Fences around texts in a prompt, which the texts cannot close or imitate."""

from __future__ import annotations

import re
import unicodedata

from goalrunner.judge.plain_text import without_invisible

INERT = "| "
"""The prefix of a line that looks like a heading or a fence."""

_WORDS = "command|output|claim|objective|criteria|constraints|said|changed|index|report"
_FORGED = re.compile(rf"\W*(?:\[\W*o\W*\d|<\W*(?:{_WORDS})\b)", re.IGNORECASE)
_BREAKS = re.compile("\r\n|[\r\u000b\u000c\u001c-\u001e\u0085\u2028\u2029]")
_LOOKED_AT = 300
"""Characters at the beginning of a line that are compared."""


def fence(name: str, text: str, nonce: str) -> str:
    """Return a text between fences that it cannot close."""
    return f"<{name} {nonce}>\n{text.replace(nonce, '[fence]')}\n</{name} {nonce}>"


def inert(text: str, nonce: str) -> str:
    """Return the text on plain lines, without the nonce.

    `| ` is put before each line that looks like a heading or a fence.
    """
    text = _BREAKS.sub("\n", text.replace(nonce, "[fence]"))
    lines: list[str] = []
    for line in text.split("\n"):
        lines.append(INERT + line if is_forged(line) else line)
    return "\n".join(lines)


def is_forged(line: str) -> bool:
    """Return whether a line looks like a heading or a fence, in any Unicode form."""
    if not line.isascii():
        # Invisible characters are removed first: many of them could hide a heading
        # behind the limit.
        plain = without_invisible(line).strip()[:_LOOKED_AT]
        line = unicodedata.normalize("NFKC", plain).casefold()
    # The pattern alone is slow on the many lines of an output.
    if "[" not in line and "<" not in line:
        return False
    return _FORGED.match(line.strip()[:_LOOKED_AT]) is not None
