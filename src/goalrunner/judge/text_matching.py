"""Text as a terminal shows it, without details that copying changes, and the search for quotes in it.

A quote is compared token by token: words, numbers and signs. White space does not count, and no word or number is cut.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
)
"""Escape sequences: colours and cursor movements, titles and links, and others."""
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e0fff]"
)
_PLAIN = str.maketrans(
    dict.fromkeys("‘’‚‛′‵", "'")
    | dict.fromkeys("“”„‟″‶«»", '"')
    | dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")
)
_LINE_NUMBERS = re.compile(
    r"^[ \t]*[1-9]\d{0,6}(?:\t|→|[ \t]*\|[ \t]?|:(?!\d)[ \t]?)", re.MULTILINE
)


def readable(text: str) -> str:
    """Return the text as a terminal shows it: without control codes, and with the last state of a rewritten line."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    if "\r" in text:
        text = "\n".join(
            line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")
        )
    return _CONTROLS.sub("", text)


def folded(text: str) -> str:
    """Return readable text with plain quotes and dashes, normalised Unicode and single spaces: copying changes these."""
    return " ".join(_plain(text).split())


def _plain(text: str) -> str:
    text = readable(text)
    # Invisible characters go first: one between a letter and its accent would keep them apart.
    return (
        text
        if text.isascii()
        else unicodedata.normalize("NFKC", without_invisible(text)).translate(_PLAIN)
    )


def without_invisible(text: str) -> str:
    """Return the text without invisible characters: zero-width ones, direction marks, tags."""
    return _INVISIBLE.sub("", text)


def without_line_numbers(text: str) -> str:
    """Return the text without line numbers: `  12<tab>`, `12: `, `12|`, `12→`."""
    return _LINE_NUMBERS.sub("", text)


def says_something(text: str) -> bool:
    """Return whether the text has a letter or a digit; punctuation alone proves nothing."""
    return any(character.isalnum() for character in text)


LEFT_OUT = re.compile(r"\[(?:…|\.\.\.) [\d,]{1,20} characters left out (?:…|\.\.\.)\]")
"""The mark of an omission inside a text, as shown and as normalised."""

SEARCHED = 1_000_000
"""Characters at each end of an output that are searched. Excerpts for the judge are from shorter ends."""

LONGEST = 20_000
"""Characters of a quote; a longer one never matches."""

SHORT = 8
"""A quote of fewer characters has to be a whole line."""

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
"""Scripts without spaces between words: each of their characters is a token."""
_LETTERS = rf"[^\W{_UNSPACED}]+"
_WORD = (
    r"(?:(?<![\w-])-(?=\.?\d))?(?:(?<![\w.])\.(?=\d))?"  # the sign or the point of a number
    rf"{_LETTERS}(?:(?:(?<=\d)[.,/-]|(?<=\d[eE])-)(?=\d){_LETTERS})*"  # 1,000 and 3/5 and 1e-5 and v1.2 are one word
    rf"|[{_UNSPACED}]"
)
_WORDS = re.compile(_WORD)
_TOKENS = re.compile(rf"{_WORD}|\.\.\.|\S")
_DOTS = re.compile(r"\.{4,}")
_ELLIPSIS = re.compile(r"[\[(]?\.{3,}[\])]?")
_LINE_OF_DOTS = re.compile(rf"^[ \t]*{_ELLIPSIS.pattern}[ \t]*$", re.MULTILINE)

_INERT = re.compile(r"^\| ?", re.MULTILINE)
_ESCAPED = re.compile(r"\\([\\nrt\"'`])")
_MEANT = {"n": "\n", "r": "", "t": "\t"}
_QUOTES = dict(zip("\"'“‘„«", "\"'”’“»", strict=True))


class OutputText:
    """An output in which quotes are searched: as it is and, if that fails, without the numbers of its lines."""

    def __init__(self, output: str) -> None:
        if len(output) > 2 * SEARCHED:
            output = f"{output[:SEARCHED]}\n[…]\n{output[-SEARCHED:]}"
        shown = readable(output)
        self._lines = [
            _lines_of(text)
            for text in dict.fromkeys([shown, without_line_numbers(shown)])
        ]

    def holds(self, form: str, *, anywhere: bool = False) -> bool:
        """Return whether the output contains a form of a quote: whole or, if it has ellipses, its parts in order.

        With `anywhere`, a short form need not be a whole line.
        """
        rows = [
            row
            for row in map(
                folded, _LINE_OF_DOTS.split(_plain(LEFT_OUT.sub("...", form)))
            )
            if row
        ]
        forms = ([folded(form)], _parts_of(form), rows)
        return any(
            _in_order(lines, found, anywhere)
            for lines in self._lines
            for found in forms
        )


def forms_of(quote: str) -> list[str]:
    """Return the forms of a quote: as given, and without the quotes around it, escapes and the prefix of inert lines.

    Forms without words are left out.
    """
    texts = [readable(quote)]
    for step in (_unwrapped, lambda text: _INERT.sub("", text), _unescaped, _unwrapped):
        texts = list(dict.fromkeys([*texts, *map(step, texts)]))
    return [text for text in texts if says_something(folded(text))]


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), text)


def _unwrapped(text: str) -> str:
    text = text.strip()
    if text.startswith("`") and text.endswith("`"):
        return text.strip("`")
    return text[1:-1] if len(text) > 2 and _QUOTES.get(text[0]) == text[-1] else text


def _parts_of(form: str) -> list[str]:
    """Return the parts of a quote between ellipses or marks of an omission, without those of mere punctuation."""
    parts = map(str.strip, _ELLIPSIS.split(folded(LEFT_OUT.sub("...", form))))
    return [part for part in parts if part.strip(string.punctuation)]


def _lines_of(text: str) -> str:
    """Return the tokens of a text with spaces between them, each line between newlines."""
    lines = (" ".join(_tokens_of(line)) for line in _plain(text).split("\n"))
    return "\n".join(["", *filter(None, lines), ""])


def _tokens_of(text: str) -> list[str]:
    return _TOKENS.findall(_DOTS.sub("...", text))


def _in_order(lines: str, parts: list[str], anywhere: bool) -> bool:
    """Return whether the lines contain the parts of a quote, one after another."""
    text = lines.replace("\n", " ")
    position = 0
    for number, part in enumerate(parts, 1):
        tokens = _tokens_of(part)
        # A single word after other parts could be from any line.
        is_word = number > 1 and sum(map(says_something, tokens)) < 2
        is_line = is_word or (len(part) < SHORT and not anywhere)
        for begin, end in _places(text, f" {' '.join(tokens)} ", position):
            # The dots between two parts may be the output's own, within a line: `test_a ... FAIL`.
            goes_on = number < len(parts) and text.startswith(" ... ", end)
            if not goes_on and (not is_line or lines[begin] == lines[end] == "\n"):
                position = end
                break
        else:
            return False
    return bool(parts)


def _places(text: str, wanted: str, position: int) -> Iterator[tuple[int, int]]:
    """Yield the indexes of the first and the last character of each occurrence from `position` on."""
    while (position := text.find(wanted, position)) >= 0:
        yield position, position + len(wanted) - 1
        position += 1


_ESCAPED_BREAK = re.compile(r"\\[abefnrtv]")
_QUOTING = str.maketrans(dict.fromkeys("\"'`\\", None))


class CommandText:
    """The words of a command line, without quoting and signs."""

    def __init__(self, command: str) -> None:
        self._words = _words_of(command)

    def says(self, form: str) -> bool:
        """Return whether each line and part of a quote has only words that follow one another in the command."""
        parts = [part for line in form.split("\n") for part in _parts_of(line)]
        return self._words != " " and all(
            _words_of(part) in self._words for part in parts
        )


def _words_of(text: str) -> str:
    """Return the words of a text between spaces."""
    return " ".join(
        [
            "",
            *_WORDS.findall(_plain(_ESCAPED_BREAK.sub(" ", text).translate(_QUOTING))),
            "",
        ]
    )
