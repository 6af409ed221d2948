"""Whether a quote stands in an output, and whether it repeats the command itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from goalrunner.judge.excerpt import LEFT_OUT
from goalrunner.judge.text import ends, folded_lines, readable, says_something, without_line_numbers

SEARCHED = 64_000_000
"""Characters of an output that are searched; of a longer one its first and last halves of that."""

LONGEST = 20_000
"""Characters of a quote; a longer one is none."""

SHORT = 8
"""Characters from which on a quote may stand anywhere; a shorter one must be a whole line."""

MOST_PARTS = 8
"""Of a quote that is joined by dots."""

_SEAM = "_\0_"
"""Between the two ends: in no quote, and no edge of a word, for what stands there may be cut."""

_ELLIPSIS = re.compile(r"[\[(]?\.{3,}[\])]?")
_INERT = re.compile(r"^\| ?", re.MULTILINE)
_ESCAPED = re.compile(r"\\([\\nrt\"'`])")
_MEANT = {"n": "\n", "r": "", "t": "\t"}
_QUOTES = dict(zip("\"'“‘„«", "\"'”’“»", strict=True))
_BARS = "│┃║"
_DECORATION = re.compile(r"[\s=\-_*#~.|<>:;,'\"`()\[\]{}\u2500-\u257f]*")

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
"""Scripts that are written without spaces between words, and so have no edges of words."""
_WORD = rf"[^\W{_UNSPACED}]"
_GOES_BEFORE = (r"\d[.,/-]", r"[^\w.]\.", r"^\.", r"[^\w-]-", r"^-", r"\d[eE]-")
"""What makes a number only the rest of one: `1,` before it, a bare point, a sign, an exponent."""
_DOTS = r" ?[\[(]?\.{3,}+[\])]? ?"
_BEFORE_DOTS = re.compile(r"\n(?=[\[(]?\.{3})")


class Output:
    """An output as it is searched: as it is, and only where that does not do, without the numbers of its lines."""

    def __init__(self, output: str, *, searched: int = SEARCHED) -> None:
        head, tail = ends(output, searched // 2)
        self.is_cut = bool(tail)
        """Whether only its two ends are searched."""
        self._text = f"{readable(head)}{_SEAM}{readable(tail)}" if tail else readable(head)
        self._plain = _Searched(_lines(self._text))
        self._bare: _Searched | None = None

    def holds(self, form: str, *, anywhere: bool = False) -> bool:
        """Whether a form of a quote stands in it, whole or, where parts are joined by dots, part after part.

        `anywhere`: not to ask that a short one be a whole line.
        """
        if len(form) > LONGEST:
            return False
        if self._plain.holds(form, anywhere=anywhere):
            return True
        if self._bare is None:
            bare = without_line_numbers(self._text)
            self._bare = self._plain if bare == self._text else _Searched(_lines(bare))
        return self._bare is not self._plain and self._bare.holds(form, anywhere=anywhere)


def forms_of(quote: str) -> list[str]:
    """A quote as it is compared: as given, and as it was before it was wrapped, escaped, or made inert to be shown.

    None where it says nothing. Line ends are kept; in an output they count as spaces.
    """
    texts = [readable(quote)]
    for step in (_unwrapped, _without_marks, _unescaped, _unwrapped):
        texts = list(dict.fromkeys([*texts, *map(step, texts)]))
    return [form for form in dict.fromkeys(map(comparable, texts)) if says_something(form)]


def comparable(text: str) -> str:
    """A text as both sides of a comparison are written; its line ends are kept."""
    return _one_bar(folded_lines(text))


def parts_of(quote: str) -> list[str]:
    """What dots, or the mark of an omission, join."""
    found = (part.strip() for part in _ELLIPSIS.split(LEFT_OUT.sub("...", quote)))
    # A frame around what is quoted (====) says nothing; a sign such as a tick does.
    return [part for part in found if not _DECORATION.fullmatch(part)]


def _lines(text: str) -> str:
    """Comparable text. Each piece by itself: control characters, the seam's too, are dropped."""
    return _SEAM.join(map(comparable, text.split(_SEAM)))


def _one_bar(text: str) -> str:
    if not text.isascii():
        for bar in _BARS:
            text = text.replace(bar, "|")
    return text


def _without_marks(text: str) -> str:
    return _INERT.sub("", text)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), text)


def _unwrapped(text: str) -> str:
    text = text.strip()
    if text.startswith("`") and text.endswith("`"):
        return text.strip("`")
    return text[1:-1] if len(text) > 2 and _QUOTES.get(text[0]) == text[-1] else text


class _Searched:
    """A comparable text in which quotes are looked for."""

    def __init__(self, lines: str) -> None:
        self._lines = lines
        # Line ends become spaces: words alone are found in linear time, whatever the words and the text are.
        self._text = lines.replace("\n", " ")

    @cached_property
    def _dotted(self) -> str:
        """The words, and a line end before dots: dots on a line of their own follow no part."""
        return _BEFORE_DOTS.sub("\1", self._lines).replace("\n", " ").replace("\1", "\n")

    def holds(self, form: str, *, anywhere: bool) -> bool:
        """Whether a form stands in it, whole or part after part."""
        quote = form.replace("\n", " ")
        is_short = not anywhere and len(quote) < SHORT
        if self._whole_line(quote, 0) if is_short else re.search(_edged(quote), self._text):
            return True
        parts = parts_of(quote)
        if parts == [quote] or len(parts) > MOST_PARTS or not any(says_something(part) for part in parts):
            return False
        return self._stand_in(parts, anywhere=anywhere)

    def _stand_in(self, parts: Sequence[str], *, anywhere: bool) -> bool:
        """Whether the parts stand one after another. The first place that will do is the best one: it leaves the most."""
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
        """A short part as a whole line, or through the output's own dots with what follows it there."""
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
    """A part, and through the output's own dots the next ones, each a group; nowhere else where there are such dots.

    `by_dots`: only where such dots follow the first part.
    """
    pattern = _edged(parts[0])
    end = ""
    for number, part in enumerate(parts[1:]):
        other = "" if by_dots and number == 0 else f"(?!{_DOTS})|"
        pattern += f"(?:{other}{_DOTS}({_edged(part)})"
        end += ")"
    return pattern + end


def _edged(part: str) -> str:
    """The pattern of a part that begins and ends where words and numbers do. The part is first: so it is found fast."""
    # Back over the part itself: what is refused before it.
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
