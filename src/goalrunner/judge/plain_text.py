"""Text as a terminal shows it, without details that copying changes."""

from __future__ import annotations

import re
import unicodedata

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
)
"""Escape sequences: colours and cursor movements, titles and links, and others."""
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)
# Models write typographic quotes and dashes where programs printed plain ones.
_PLAIN = str.maketrans(
    dict.fromkeys("‘’‚‛′‵", "'")
    | dict.fromkeys("“”„‟″‶«»", '"')
    | dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")
)
# Tools that show files number the lines, and judges copy the numbers.
_LINE_NUMBERS = re.compile(
    r"^[ \t]*[1-9]\d{0,6}(?:\t|→|[ \t]*\|[ \t]?|:(?!\d)[ \t]?)", re.MULTILINE
)


def readable(text: str) -> str:
    """Return the text as a terminal shows it.

    It has no control codes, and only the last state of a rewritten line.
    """
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    # Progress bars rewrite their line; a terminal shows the last state.
    if "\r" in text:
        lines = [line.rstrip("\r") for line in text.split("\n")]
        text = "\n".join(line.rpartition("\r")[2] for line in lines)
    return _CONTROLS.sub("", text)


def folded(text: str) -> str:
    """Return plain text on one line with single spaces."""
    return " ".join(plain_lines(text).split())


def plain_lines(text: str) -> str:
    """Return readable text with plain quotes and dashes, and normalised Unicode.

    Copying changes these.
    """
    text = readable(text)
    if text.isascii():
        return text
    # Invisible characters go first: one between a letter and its accent would keep
    # them apart.
    normalised = unicodedata.normalize("NFKC", without_invisible(text))
    return normalised.translate(_PLAIN)


def without_invisible(text: str) -> str:
    """Return the text without zero-width characters, direction marks and tags."""
    return _INVISIBLE.sub("", text)


def without_line_numbers(text: str) -> str:
    """Return the text without line numbers: `  12<tab>`, `12: `, `12|`, `12→`."""
    return _LINE_NUMBERS.sub("", text)


def says_something(text: str) -> bool:
    """Return whether the text has a letter or a digit.

    Punctuation alone proves nothing.
    """
    return any(character.isalnum() for character in text)
