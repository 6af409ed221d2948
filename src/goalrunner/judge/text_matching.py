"""Text as a terminal shows it, without details that copying changes, and the search for quotes in it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC and its like: titles, links
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_OVERSTRUCK = re.compile("[^\b\n]\b(?=[^\b\n])")
_MOVES = re.compile(r"[\r\b\x1b\x90\x9b\x9d]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e0fff]"
)
_PLAIN = str.maketrans(
    dict.fromkeys("‘’‚‛′‵", "'") | dict.fromkeys("“”„‟″‶«»", '"') | dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")
)
_SPACES = re.compile(r"[^\S\n]{2,}|[^\S\n ]")
_LINE_ENDS = re.compile(r"(?: ?\n)+ ?")
_LINE_NUMBERS = re.compile(r"^[ \t]*[1-9]\d{0,6}(?:\t|→|[ \t]*\|[ \t]?|:(?!\d)[ \t]?)", re.MULTILINE)


def readable(text: str) -> str:
    """Return what a terminal shows: no colour codes, only the last state of a line that is rewritten, no other controls."""
    text = text.replace("\r\n", "\n")
    if "\x1b" in text or "\x9b" in text or "\x9d" in text or "\x90" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("", _OVERSTRUCK.sub("", text) if "\b" in text else text)


def folded(text: str) -> str:
    """Return readable text without details that copying changes: Unicode form, typographic quotes and dashes, white space."""
    return folded_lines(text).replace("\n", " ")


def folded_lines(text: str) -> str:
    """Return `folded` text with its line ends, without empty lines. Both have the same length."""
    text = readable(text)
    if not text.isascii():
        # Invisible characters go first: one between a letter and its accent would keep them apart.
        text = unicodedata.normalize("NFKC", without_invisible(text)).translate(_PLAIN)
    return _LINE_ENDS.sub("\n", _SPACES.sub(" ", text)).strip()


def without_invisible(text: str) -> str:
    """Return the text without invisible characters: zero-width ones, direction marks, tags."""
    return _INVISIBLE.sub("", text)


def without_line_numbers(text: str) -> str:
    """Return the text without line numbers: `  12<tab>`, `12: `, `12|`, `12→`."""
    return _LINE_NUMBERS.sub("", text)


def says_something(text: str) -> bool:
    """Return whether the text has a letter or a digit; punctuation alone proves nothing."""
    return any(character.isalnum() for character in text)


def ends(text: str, size: int) -> tuple[str, str]:
    """Return about `size` characters of each end, or the whole text and "" if the ends overlap.

    An end that would cut a line in which the cursor moves has all of this line.
    """
    if len(text) <= 2 * size:
        return text, ""
    head, tail = _line_at(text, size)[1], _line_at(text, len(text) - size)[0]
    return (text, "") if head >= tail else (text[:head], text[tail:])


def _line_at(text: str, cut: int) -> tuple[int, int]:
    """Return where the line at a cut begins and ends if the cursor moves in it, otherwise the cut itself."""
    begin, end = text.rfind("\n", 0, cut) + 1, text.find("\n", cut)
    end = len(text) if end < 0 else end
    return (begin, end) if _MOVES.search(text, begin, end) else (cut, cut)


LEFT_OUT = re.compile(r"\[(?:…|\.\.\.) [\d,]{1,20} characters left out (?:…|\.\.\.)\]")
"""The mark of an omission inside a text, as shown and as normalised."""

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
_LETTER = rf"[^\W{_UNSPACED}]"
_GOES_BEFORE = (r"\d[.,/-]", r"[^\w.]\.", r"^\.", r"[^\w-]-", r"^-", r"\d[eE]-")
"""What makes a number the rest of another one: `1,` before it, a bare point, a sign, an exponent."""
_OWN_DOTS = r" ?[\[(]?\.{3,}+[\])]? ?"


class Output:
    """An output in which quotes are searched: as it is and, if that fails, without the numbers of its lines."""

    def __init__(self, output: str, *, searched: int = SEARCHED) -> None:
        head, tail = ends(output, searched // 2)
        self.is_cut = bool(tail)
        """Whether only its two ends are searched."""
        self._ends = [readable(head), *([readable(tail)] if tail else [])]
        self._plain = _Searched(self._ends)

    def holds(self, form: str, *, anywhere: bool = False) -> bool:
        """Return whether a form of a quote stands in it, whole or, if dots join it, part after part.

        With `anywhere`, a short one need not be a whole line.
        """
        if len(form) > LONGEST:
            return False
        if self._plain.holds(form, anywhere=anywhere):
            return True
        return self._unnumbered is not None and self._unnumbered.holds(form, anywhere=anywhere)

    @cached_property
    def _unnumbered(self) -> _Searched | None:
        bare = list(map(without_line_numbers, self._ends))
        return None if bare == self._ends else _Searched(bare)


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


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), text)


def _unwrapped(text: str) -> str:
    text = text.strip()
    if text.startswith("`") and text.endswith("`"):
        return text.strip("`")
    return text[1:-1] if len(text) > 2 and _QUOTES.get(text[0]) == text[-1] else text


class _Searched:
    """The ends of a text, as they are compared, in which quotes are searched."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._lines = _SEAM.join(map(_comparable, parts))
        # With spaces for line ends, words are found in linear time, whatever the words and the text are.
        self._text = self._lines.replace("\n", " ")

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
        """Return whether the parts stand one after another; several of them may be joined by the output's own dots."""
        index = position = 0
        while index < len(parts):
            for end in range(len(parts), index, -1):
                is_last = end == len(parts)
                found = self._piece(parts[index:end], position, anywhere, is_last=is_last)
                if found is not None:
                    break
            else:
                return False
            index, position = end, found.end()
        return True

    def _piece(self, parts: Sequence[str], position: int, anywhere: bool, *, is_last: bool) -> re.Match[str] | None:
        """Find joined parts: few characters, or one word after other parts, only as a whole line."""
        piece = " ... ".join(parts)
        is_word = position > 0 and sum(map(says_something, piece.split(" "))) < 2
        if is_word or (not anywhere and len(piece) < SHORT):
            return self._whole_line(piece, position)
        matches = re.compile(_OWN_DOTS.join(map(_edged, parts))).finditer(self._text, position)
        # Where the output's own dots follow, its own words do as well: `test_a ... FAIL`.
        dots = re.compile(_OWN_DOTS)
        return next((found for found in matches if is_last or not dots.match(self._lines, found.end())), None)

    def _whole_line(self, words: str, position: int) -> re.Match[str] | None:
        pattern = "[ \\n]".join(map(re.escape, words.split(" ")))
        return re.compile(f"^{pattern}$", re.MULTILINE).search(self._lines, position)


def _edged(part: str) -> str:
    """Return the pattern of a part that begins and ends where words and numbers do. It begins with the part, for speed."""
    # Lookbehinds go back over the part itself.
    back = f"(?s:.{{{len(part)}}})"
    refused = []
    if re.match(_LETTER, part):
        refused.append(f"(?<!{_LETTER}{back})")
    if part[0].isdecimal():
        refused.extend(f"(?<!{before}{back})" for before in _GOES_BEFORE)
    if re.match(r"[.,/-]\d", part):
        refused.append(rf"(?<!\d{back})")
    if re.match(_LETTER, part[-1]):
        refused.append(f"(?!{_LETTER})")
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
