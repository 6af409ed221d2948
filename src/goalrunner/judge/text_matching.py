"""The search for quotes in outputs and commands.

A quote is compared token by token: words, numbers and signs. White space does not
count, and no word or number is cut.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

from goalrunner.judge.plain_text import (
    folded,
    plain_lines,
    readable,
    says_something,
    without_line_numbers,
)

LEFT_OUT = re.compile(r"\[(?:…|\.\.\.) [\d,]{1,20} characters left out (?:…|\.\.\.)\]")
"""The mark of an omission inside a text, as shown and as normalised."""

SEARCHED = 1_000_000
"""Characters at each end of an output that are searched.

Excerpts for the judge are from shorter ends.
"""

LONGEST = 20_000
"""Characters of a quote; a longer one never matches."""

SHORT = 8
"""A quote of fewer characters has to be a whole line."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts without spaces between words: each of their characters is a token."""
_LETTERS = rf"[^\W{_UNSPACED}]+"
_WORD = (
    # The sign or the point of a number.
    r"(?:(?<![\w-])-(?=\.?\d))?(?:(?<![\w.])\.(?=\d))?"
    # 1,000 and 3/5 and 1e-5 and v1.2 are one word.
    rf"{_LETTERS}(?:(?:(?<=\d)[.,/-]|(?<=\d[eE])-)(?=\d){_LETTERS})*"
    rf"|[{_UNSPACED}]"
)
_WORDS = re.compile(_WORD)
# Each sign is a token, so that `a-b` differs from `a b`.
_TOKENS = re.compile(rf"{_WORD}|\.\.\.|\S")
_DOTS = re.compile(r"\.{4,}")
# "...", "[...]", "(…)" after folding
_ELLIPSIS = re.compile(r"[\[(]?\.{3,}[\])]?")
_LINE_OF_DOTS = re.compile(rf"^[ \t]*{_ELLIPSIS.pattern}[ \t]*$", re.MULTILINE)

_INERT = re.compile(r"^\| ?", re.MULTILINE)
_ESCAPED = re.compile(r"\\([\\nrt\"'`])")
_MEANT = {"n": "\n", "r": "", "t": "\t"}
_QUOTES = dict(zip("\"'“‘„«", "\"'”’“»", strict=True))
# `printf 'a\nb'` has the words a and b.
_ESCAPED_BREAK = re.compile(r"\\[abefnrtv]")
_QUOTING = str.maketrans(dict.fromkeys("\"'`\\", None))


class OutputText:
    """An output in which quotes are searched.

    If a quote is not found, it is searched without the numbers of lines.
    """

    def __init__(self, output: str) -> None:
        if len(output) > 2 * SEARCHED:
            # A quote across the omission cannot match.
            output = f"{output[:SEARCHED]}\n[…]\n{output[-SEARCHED:]}"
        text = readable(output)
        self._texts = [_lines_of(text)]
        unnumbered = without_line_numbers(text)
        if unnumbered != text:
            self._texts.append(_lines_of(unnumbered))

    def holds(self, form: str, *, anywhere: bool = False) -> bool:
        """Return whether the output contains a form of a quote.

        If the form has ellipses, its parts in order are enough. With `anywhere`, a
        short form need not be a whole line.
        """
        rows = _LINE_OF_DOTS.split(plain_lines(LEFT_OUT.sub("...", form)))
        # A quote may contain dots of the output, or leave parts or whole lines out.
        ways = (
            [folded(form)],
            _parts_of(form),
            list(filter(None, map(folded, rows))),
        )
        for lines in self._texts:
            for parts in ways:
                if _in_order(lines, parts, anywhere):
                    return True
        return False


def forms_of(quote: str) -> list[str]:
    """Return the forms of a quote.

    One is the quote itself; others lack the quotes around it, escapes, or the prefix of
    inert lines. Forms without words are left out.
    """
    texts = [readable(quote)]
    # Quotes may be outside and inside of escapes.
    for step in (_unwrapped, _without_prefix, _unescaped, _unwrapped):
        texts = list(dict.fromkeys([*texts, *map(step, texts)]))
    return [text for text in texts if says_something(folded(text))]


def _without_prefix(text: str) -> str:
    return _INERT.sub("", text)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda escape: _MEANT.get(escape[1], escape[1]), text)


def _unwrapped(text: str) -> str:
    text = text.strip()
    if text.startswith("`") and text.endswith("`"):
        return text.strip("`")
    is_quoted = len(text) > 2 and _QUOTES.get(text[0]) == text[-1]
    return text[1:-1] if is_quoted else text


def _parts_of(form: str) -> list[str]:
    """Return the parts of a quote between ellipses or marks of an omission.

    Parts of mere punctuation are left out.
    """
    parts = map(str.strip, _ELLIPSIS.split(folded(LEFT_OUT.sub("...", form))))
    return [part for part in parts if part.strip(string.punctuation)]


def _lines_of(text: str) -> str:
    """Return the tokens of a text with spaces between them.

    Each line is between newlines.
    """
    lines = [" ".join(_tokens_of(line)) for line in plain_lines(text).split("\n")]
    return "\n".join(["", *filter(None, lines), ""])


def _tokens_of(text: str) -> list[str]:
    return _TOKENS.findall(_DOTS.sub("...", text))


def _in_order(lines: str, parts: list[str], anywhere: bool) -> bool:
    """Return whether the lines contain the parts of a quote, one after another.

    Each part counts at its first place after the part before it. A short part must be a
    whole line, unless `anywhere`; a single word after other parts always.
    """
    text = lines.replace("\n", " ")
    position = 0
    for number, part in enumerate(parts, 1):
        tokens = _tokens_of(part)
        # A single word after other parts could be from any line.
        is_word = number > 1 and sum(map(says_something, tokens)) < 2
        must_be_line = is_word or (len(part) < SHORT and not anywhere)
        for begin, end in _places(text, f" {' '.join(tokens)} ", position):
            # The dots after a part may be the output's own, as in `test_a ... FAIL`.
            # They omit nothing, so "test_a ... ok" must not match a later "ok".
            has_own_dots = number < len(parts) and text.startswith(" ... ", end)
            is_line = lines[begin] == lines[end] == "\n"
            if not has_own_dots and (is_line or not must_be_line):
                position = end
                break
        else:
            # No place of this part counts.
            return False
    return bool(parts)


def _places(text: str, words: str, position: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index of each occurrence from `position` on."""
    while (position := text.find(words, position)) >= 0:
        yield position, position + len(words) - 1
        position += 1


class CommandText:
    """The words of a command line, without quoting and signs."""

    def __init__(self, command: str) -> None:
        self._words = _words_of(command)

    def says(self, form: str) -> bool:
        """Return whether a quote has only words of the command.

        The words of each line and part must follow one another there.
        """
        has_words = bool(self._words.strip())
        if not has_words:
            return False
        for line in form.split("\n"):
            for part in _parts_of(line):
                if _words_of(part) not in self._words:
                    return False
        return True


def _words_of(text: str) -> str:
    """Return the words of a text between spaces."""
    unquoted = _ESCAPED_BREAK.sub(" ", text).translate(_QUOTING)
    return " ".join(["", *_WORDS.findall(plain_lines(unquoted)), ""])
