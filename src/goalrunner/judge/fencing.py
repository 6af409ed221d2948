"""Fences around what models and programs wrote: nothing within can close its fence or pass for a heading. Owns no choice.

A fence carries a nonce that was made after everything within was written. A line that looks like a heading or like a
fence, however it is spelt in Unicode, gets `| ` before it as well.
"""

from __future__ import annotations

import re
import unicodedata

from goalrunner.judge.normalisation import without_invisible

INERT = "| "
"""What stands before a line that looks like more than it is."""

_WORDS = "command|output|claim|objective|criteria|constraints|changed|index|report"
_FORGED = re.compile(rf"\W*(?:\[\W*o\W*\d|<\W*(?:{_WORDS})\b)", re.IGNORECASE)
_BREAKS = re.compile("\r\n|[\r\u000b\u000c\u001c-\u001e\u0085\u2028\u2029]")
_LOOKED_AT = 300
_LOOK_ALIKES = str.maketrans(
    dict(zip("асеоріјԁѕтмпиυνορτιкκαεη", "aceopijdstmnnuvoptikkaen", strict=True))
    | dict.fromkeys("օ०๐໐○◦ⲟჿᴏ", "o")
    | dict.fromkeys("❲〔⟦⦗⁅「『【〖〘〚❴⟬⦋⦍⦏｢", "[")
    | dict.fromkeys("‹«〈⟨《❮❬⧼˂ᐸ≺⋖⦑⟪❰", "<")
    | dict.fromkeys("∕⁄⧸╱⟋", "/")
)


def fence(name: str, text: str, nonce: str, *, harmless: bool = False) -> str:
    """A text between fences that it cannot close. `harmless`: leave every line as it is, for the goal's own words."""
    body = text.replace(nonce, "[fence]") if harmless else inert(text, nonce)
    return f"<{name} {nonce}>\n{body}\n</{name} {nonce}>"


def inert(text: str, nonce: str) -> str:
    """The text on plain lines, without the nonce, and with `| ` before each line that looks like a heading or a fence."""
    text = _BREAKS.sub("\n", text.replace(nonce, "[fence]"))
    return "\n".join(INERT + line if is_forged(line) else line for line in text.split("\n"))


def is_forged(line: str) -> bool:
    """Whether a line, however it is spelt in Unicode, looks like a heading or a fence."""
    if line.isascii():
        return ("[" in line or "<" in line) and _FORGED.match(line.strip()[:_LOOKED_AT]) is not None
    # Invisible characters are dropped first: no number of them may push a heading out of sight.
    plain = without_invisible(line).strip()[:_LOOKED_AT]
    plain = unicodedata.normalize("NFKC", plain).casefold().translate(_LOOK_ALIKES)
    return _FORGED.match(plain) is not None
