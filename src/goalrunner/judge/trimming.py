"""A text without what stands around its words. Owns that cut alone; linear, whatever the text is.

A pattern would try each run of other characters from every one of its places.
"""

from __future__ import annotations


def trimmed(text: str) -> str:
    """From the first letter, digit or underscore to the last; empty where there is none."""
    text = from_first_word(text)
    end = len(text)
    while end > 0 and not _is_word(text[end - 1]):
        end -= 1
    return text[:end]


def from_first_word(text: str) -> str:
    """From the first letter, digit or underscore on."""
    return next((text[place:] for place, character in enumerate(text) if _is_word(character)), "")


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"
