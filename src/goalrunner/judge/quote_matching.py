"""Whether a quote stands in an output, and whether it only repeats the command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from goalrunner.judge.excerpt import LEFT_OUT
from goalrunner.judge.text import ends, folded_lines, readable, says_something, without_line_numbers

SEARCHED = 64_000_000
"""Characters of an output that are searched: half of them at each end of a longer one."""

LONGEST = 20_000
"""Characters of a quote; a longer one never matches."""

SHORT = 8
"""A quote of fewer characters has to be a whole line."""

MOST_PARTS = 8
"""Parts of a quote that dots join."""

_SEAM = "_\0_"
"""Between the two ends of an output: it is in no quote and no edge of a word, since the words there may be cut."""

_ELLIPSIS = re.compile(r"[\[(]?\.{3,}[\])]?")
_INERT = re.compile(r"^\| ?", re.MULTILINE)
_ESCAPED = re.compile(r"\\([\\nrt\"'`])")
_MEANT = {"n": "\n", "r": "", "t": "\t"}
_QUOTES = dict(zip("\"'“‘„«", "\"'”’“»", strict=True))
_BARS = "│┃║"
_DECORATION = re.compile(r"[\s=\-_*#~.|<>:;,'\"`()\[\]{}\u2500-\u257f]*")

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
"""Scripts without spaces between words: their words have no edges."""
_WORD = rf"[^\W{_UNSPACED}]"
_GOES_BEFORE = (r"\d[.,/-]", r"[^\w.]\.", r"^\.", r"[^\w-]-", r"^-", r"\d[eE]-")
"""What makes a number the rest of another one: `1,` before it, a bare point, a sign, an exponent."""
_DOTS = r" ?[\[(]?\.{3,}+[\])]? ?"
_BEFORE_DOTS = re.compile(r"\n(?=[\[(]?\.{3})")


class Output:
    """An output in which quotes are searched: as it is and, if that fails, without the numbers of its lines."""

    def __init__(self, output: str, *, searched: int = SEARCHED) -> None:
        head, tail = ends(output, searched // 2)
        self.is_cut = bool(tail)
        """Whether only its two ends are searched."""
        self._text = f"{readable(head)}{_SEAM}{readable(tail)}" if tail else readable(head)
        self._plain = _Searched(_lines(self._text))

    def holds(self, form: str, *, anywhere: bool = False) -> bool:
        """Return whether a form of a quote stands in it, whole or, if dots join it, part after part.

        With `anywhere`, a short one need not be a whole line.
        """
        if len(form) > LONGEST:
            return False
        return self._plain.holds(form, anywhere=anywhere) or (
            self._unnumbered is not None and self._unnumbered.holds(form, anywhere=anywhere)
        )

    @cached_property
    def _unnumbered(self) -> _Searched | None:
        bare = without_line_numbers(self._text)
        return None if bare == self._text else _Searched(_lines(bare))


def forms_of(quote: str) -> list[str]:
    """Return a quote as it is compared: as given, and as it was before it was wrapped, escaped, or made inert.

    Return nothing for a quote without words. Line ends are kept; in an output they count as spaces.
    """
    texts = [readable(quote)]
    for step in (_unwrapped, lambda text: _INERT.sub("", text), _unescaped, _unwrapped):
        texts = list(dict.fromkeys([*texts, *map(step, texts)]))
    return [form for form in dict.fromkeys(map(_comparable, texts)) if says_something(form)]


def _comparable(text: str) -> str:
    """Return a text as both sides of a comparison are written, with its line ends."""
    text = folded_lines(text)
    if not text.isascii():
        for bar in _BARS:
            text = text.replace(bar, "|")
    return text


def _parts_of(quote: str) -> list[str]:
    """Return the parts that dots, or the mark of an omission, join."""
    found = (part.strip() for part in _ELLIPSIS.split(LEFT_OUT.sub("...", quote)))
    # A frame around the quote (====) says nothing; a sign such as a tick does.
    return [part for part in found if not _DECORATION.fullmatch(part)]


def _lines(text: str) -> str:
    # Each end by itself: control characters, the seam's too, are removed.
    return _SEAM.join(map(_comparable, text.split(_SEAM)))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), text)


def _unwrapped(text: str) -> str:
    text = text.strip()
    if text.startswith("`") and text.endswith("`"):
        return text.strip("`")
    return text[1:-1] if len(text) > 2 and _QUOTES.get(text[0]) == text[-1] else text


class _Searched:
    """A comparable text in which quotes are searched."""

    def __init__(self, lines: str) -> None:
        self._lines = lines
        # With spaces for line ends, words are found in linear time, whatever the words and the text are.
        self._text = lines.replace("\n", " ")

    @cached_property
    def _dotted(self) -> str:
        """The words, with a line end before dots: dots on a line of their own follow no part."""
        return _BEFORE_DOTS.sub("\1", self._lines).replace("\n", " ").replace("\1", "\n")

    def holds(self, form: str, *, anywhere: bool) -> bool:
        """Return whether a form stands in it, whole or part after part."""
        quote = form.replace("\n", " ")
        is_short = not anywhere and len(quote) < SHORT
        if self._whole_line(quote, 0) if is_short else re.search(_edged(quote), self._text):
            return True
        parts = _parts_of(quote)
        if parts == [quote] or len(parts) > MOST_PARTS or not any(says_something(part) for part in parts):
            return False
        return self._holds_parts(parts, anywhere=anywhere)

    def _holds_parts(self, parts: Sequence[str], *, anywhere: bool) -> bool:
        """Return whether the parts stand one after another. The first match of each leaves the most for the others."""
        index = position = 0
        while index < len(parts):
            if index > 0 and sum(map(says_something, parts[index].split(" "))) < 2:
                found = self._whole_line(parts[index], position)
            elif not anywhere and len(parts[index]) < SHORT:
                found = self._short(parts[index:], position)
            else:
                found = re.compile(_joined(parts[index:])).search(self._dotted, position)
            if found is None:
                return False
            index += 1 + (found.lastindex or 0)
            position = found.end()
        return True

    def _short(self, parts: Sequence[str], position: int) -> re.Match[str] | None:
        """Find a short part as a whole line, or joined to the next part by the output's own dots."""
        line = self._whole_line(parts[0], position)
        if len(parts) == 1:
            return line
        found = re.compile(_joined(parts, by_dots=True)).search(self._dotted, position)
        if found is None or found.end() - found.start() < SHORT:
            return line
        return found if line is None or found.start() <= line.start() else line

    def _whole_line(self, words: str, position: int) -> re.Match[str] | None:
        pattern = "[ \\n]".join(map(re.escape, words.split(" ")))
        return re.compile(f"^{pattern}$", re.MULTILINE).search(self._lines, position)


def _joined(parts: Sequence[str], *, by_dots: bool = False) -> str:
    """Return the pattern of a part and of the next ones, each a group, if the output's own dots follow.

    Where such dots follow, the next part has to stand behind them. With `by_dots` they have to follow the first part.
    """
    pattern = _edged(parts[0])
    for number, part in enumerate(parts[1:]):
        other = "" if by_dots and number == 0 else f"(?!{_DOTS})|"
        pattern += f"(?:{other}{_DOTS}({_edged(part)})"
    return pattern + ")" * (len(parts) - 1)


def _edged(part: str) -> str:
    """Return the pattern of a part that begins and ends where words and numbers do. It begins with the part, for speed."""
    # Lookbehinds go back over the part itself.
    back = f"(?s:.{{{len(part)}}})"
    refused = []
    if re.match(_WORD, part):
        refused.append(f"(?<!{_WORD}{back})")
    if part[0].isdecimal():
        refused.extend(f"(?<!{before}{back})" for before in _GOES_BEFORE)
    if re.match(r"[.,/-]\d", part):
        refused.append(rf"(?<!\d{back})")
    if re.match(_WORD, part[-1]):
        refused.append(f"(?!{_WORD})")
    if part[-1].isdecimal():
        refused.append(r"(?![.,/-]\d)")
    if re.fullmatch(r"\d[.,/-]", part[-2:]):
        refused.append(r"(?!\d)")
    return re.escape(part) + "".join(refused)


_ESCAPED_BREAK = re.compile(r"\\[abefnrtv]")
_QUOTING = str.maketrans(dict.fromkeys("\"'`\\", None))
_FRAME = re.compile(r"^[\W_]+")


class Command:
    """The words of a command line as they are compared: as written, and without quoting."""

    def __init__(self, command: str) -> None:
        self._written = _line(command)
        self._plain = _unquoted(command)

    def says(self, form: str) -> bool:
        """Return whether a form of a quote has only words of the command, as a whole or in each line and part."""
        if not self._written:
            return False
        parts = [part for line in form.split("\n") for part in _parts_of(line)]
        return self._holds(form.replace("\n", " ")) or all(self._holds(part) for part in parts)

    def _holds(self, words: str) -> bool:
        # `=== 3 passed ===` says no more than `3 passed`.
        words = _FRAME.sub("", _FRAME.sub("", words)[::-1])[::-1]
        return not words or _is_within(words, self._written) or _is_within(_unquoted(words), self._plain)


def _is_within(words: str, command: str) -> bool:
    """Return whether words stand in a command; short ones only as whole words."""
    if len(words) >= SHORT:
        return words in command
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", command) is not None


def _unquoted(text: str) -> str:
    return _line(_ESCAPED_BREAK.sub(" ", text).translate(_QUOTING))


def _line(text: str) -> str:
    return _comparable(text).replace("\n", " ")
