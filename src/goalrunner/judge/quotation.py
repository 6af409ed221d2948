"""Whether a quote says more than the command did: `echo "3 passed"` prints what it says. Owns the comparison with commands.

Words that stand in the text of the command as well prove nothing, though they stand in the output.
"""

from __future__ import annotations

import re

from goalrunner.judge.matching import SHORT, comparable, parts_of

_ESCAPED_BREAK = re.compile(r"\\[abefnrtv]")
_QUOTING = str.maketrans(dict.fromkeys("\"'`\\", None))


class Command:
    """The words of a command line as they are compared: as written, and without quoting, as a shell hands them on."""

    def __init__(self, command: str) -> None:
        self._written = _line(command)
        self._handed_on = _unquoted(command)

    def says(self, form: str) -> bool:
        """Whether a form of a quote holds nothing but words of the command: as a whole, or each of its lines and parts."""
        if not self._written:
            return False
        parts = [part for line in form.split("\n") for part in parts_of(line)]
        return self._holds(form.replace("\n", " ")) or all(self._holds(part) for part in parts)

    def _holds(self, words: str) -> bool:
        words = _bared(words)
        return not words or _is_within(words, self._written) or _is_within(_unquoted(words), self._handed_on)


def _bared(words: str) -> str:
    """The words without the punctuation around them: `=== 3 passed ===` says no more than `3 passed`."""
    start, end = 0, len(words)
    while start < end and not words[start].isalnum():
        start += 1
    while end > start and not words[end - 1].isalnum():
        end -= 1
    return words[start:end]


def _is_within(words: str, command: str) -> bool:
    """Whether words stand in a command; short ones only between the borders of its own words."""
    if len(words) >= SHORT:
        return words in command
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", command) is not None


def _unquoted(text: str) -> str:
    return _line(_ESCAPED_BREAK.sub(" ", text).translate(_QUOTING))


def _line(text: str) -> str:
    return comparable(text).replace("\n", " ")
