"""Text made comparable and inert: terminal codes, Unicode forms, fences, the ends of long texts."""

from __future__ import annotations

import re
import unicodedata

_ERASE_TO_END = "\x0e"
_ERASE_LINE = "\x0f"
"""Placeholders for two terminal commands; as characters of the text both are removed beforehand."""

_STAND_INS = {ord(_ERASE_TO_END): None, ord(_ERASE_LINE): None}
_TO_END = re.compile(r"(?:\x1b\[|\x9b)0?K")
_LINE = re.compile(r"(?:\x1b\[|\x9b)2K")
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # OSC and its like: titles, links
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_MOVES = re.compile(r"[\r\x08\x0e\x0f]")

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
    """Return what a terminal shows: no colour codes, carriage returns and backspaces applied, no other controls."""
    text = text.replace("\r\n", "\n")
    if "\x1b" in text or "\x9b" in text or "\x9d" in text or "\x90" in text:
        text = text.translate(_STAND_INS)
        text = _LINE.sub(_ERASE_LINE, _TO_END.sub(_ERASE_TO_END, text))
        text = _ESCAPES.sub("", text)
        moved = _MOVES.search(text) is not None
    else:
        moved = "\r" in text or "\b" in text
        text = text.translate(_STAND_INS) if moved else text
    if moved:
        text = "\n".join(_shown(line) if _MOVES.search(line) else line for line in text.split("\n"))
    return _CONTROLS.sub("", text)


def folded(text: str) -> str:
    """Return readable text without what copying changes: Unicode form, typographic quotes and dashes, white space."""
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


def _shown(line: str) -> str:
    """Apply the carriage returns of a line, from the back: a stretch shows only what later ones do not cover."""
    pieces: list[str] = []
    covered = 0
    for stretch in reversed(line.split("\r")):
        typed, erased = _typed(stretch)
        if len(typed) > covered:
            pieces.append(typed[covered:])
            covered = len(typed)
        if erased:
            break
    return "".join(pieces)


def _typed(stretch: str) -> tuple[str, bool]:
    """Apply the backspaces of a stretch without carriage returns; also return whether it erases the line before it."""
    if _MOVES.search(stretch) is None:
        return stretch, False
    shown: list[str] = []
    position = 0
    erased = False
    for character in stretch:
        if character == "\b":
            position = max(0, position - 1)
        elif character == _ERASE_TO_END:
            del shown[position:]
            erased = True
        elif character == _ERASE_LINE:
            shown.clear()
            position = 0
            erased = True
        else:
            shown[position : position + 1] = [character]
            position += 1
    return "".join(shown), erased


INERT = "| "
"""The prefix of a line that looks like a heading or a fence."""

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
    """Return a text between fences that it cannot close. `harmless` keeps every line as it is, for the goal's own words."""
    body = text.replace(nonce, "[fence]") if harmless else inert(text, nonce)
    return f"<{name} {nonce}>\n{body}\n</{name} {nonce}>"


def inert(text: str, nonce: str) -> str:
    """Return the text on plain lines, without the nonce, with `| ` before each line that looks like a heading or a fence."""
    text = _BREAKS.sub("\n", text.replace(nonce, "[fence]"))
    return "\n".join(INERT + line if is_forged(line) else line for line in text.split("\n"))


def is_forged(line: str) -> bool:
    """Return whether a line, however it is spelt in Unicode, looks like a heading or a fence."""
    if line.isascii():
        return ("[" in line or "<" in line) and _FORGED.match(line.strip()[:_LOOKED_AT]) is not None
    # Invisible characters are dropped first: no number of them may push a heading out of sight.
    plain = without_invisible(line).strip()[:_LOOKED_AT]
    plain = unicodedata.normalize("NFKC", plain).casefold().translate(_LOOK_ALIKES)
    return _FORGED.match(plain) is not None


_ENDS_MOVES = re.compile(r"[\r\b\x1b\x90\x9b\x9d]")


def ends(text: str, size: int) -> tuple[str, str]:
    """Return about `size` characters of each end, or the whole text and "" if the ends meet.

    A line in which the cursor moves is not cut: an end that would cut one has all of it.
    """
    if len(text) <= 2 * size:
        return text, ""
    head, tail = size, len(text) - size
    begin, end = text.rfind("\n", 0, head) + 1, _line_end(text, head)
    if _ENDS_MOVES.search(text, begin, end):
        head = end
    begin, end = text.rfind("\n", 0, tail) + 1, _line_end(text, tail)
    if _ENDS_MOVES.search(text, begin, end):
        tail = begin
    return (text, "") if head >= tail else (text[:head], text[tail:])


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


_WORD = re.compile(r"\w")


def trimmed(text: str) -> str:
    """Return the text from its first letter, digit or underscore to its last. Takes linear time."""
    text = from_first_word(text)
    last = _WORD.search(text[::-1])
    return text[: len(text) - last.start()] if last else ""


def from_first_word(text: str) -> str:
    """Return the text from its first letter, digit or underscore on."""
    first = _WORD.search(text)
    return text[first.start() :] if first else ""
