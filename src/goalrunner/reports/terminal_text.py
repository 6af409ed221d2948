"""Text that is safe and measured for a terminal. Owns cleaning, width, cutting and wrapping; prints nothing.

What models, tools and files say is not trusted: a title escape, a cursor movement or a right-to-left override in it
must never reach the terminal.
"""

from __future__ import annotations

import re
import unicodedata

ELLIPSIS = "…"

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS and their kin: title, links
    r"|\x1b[ -/]*[0-~]"
)
_JOINERS = "\u200c\u200d"
_PLAIN = re.compile(r"[\n\x20-\x7e]*")
_SPACE = re.compile(r"\s+")


def clean(text: str) -> str:
    """The text without escape sequences, control and direction characters; newlines stay, a tab is a space."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(_visible(character) for character in _ESCAPES.sub("", text))


def _visible(character: str) -> str:
    if character == "\n" or character in _JOINERS:
        return character
    match unicodedata.category(character):
        case "Cc":
            return " " if character in "\t\x0b\x0c\x85" else ""
        case "Zl" | "Zp":
            return " "
        case "Cf":
            return ""
        case "Cs":
            return "\ufffd"
        case _:
            return character


def one_line(text: str) -> str:
    """Clean text with every run of white space as one space."""
    return _SPACE.sub(" ", clean(text)).strip()


def width(text: str) -> int:
    """Columns that clean text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """The text in at most so many columns; what was cut is marked by `…`."""
    if width(text) <= columns:
        return text
    if columns < 1:
        return ""
    return _head(text, columns - 1).rstrip() + ELLIPSIS


def pad(text: str, columns: int) -> str:
    """The text, filled with spaces up to so many columns."""
    return text + " " * max(columns - width(text), 0)


def _head(text: str, columns: int) -> str:
    taken = 0
    for index, character in enumerate(text):
        taken += _columns(character)
        if taken > columns:
            return text[:index]
    return text


def wrap(text: str, columns: int, rows: int) -> list[str]:
    """One line of clean text on at most so many rows; the last one is cut when there is more. Never empty."""
    columns = max(columns, 1)
    lines: list[str] = []
    rest = text.strip()
    while rest and len(lines) < rows - 1 and width(rest) > columns:
        head = _head(rest, columns) or rest[0]
        space = head.rfind(" ")
        if space > 0 and rest[len(head) : len(head) + 1] not in ("", " "):
            head = head[:space]
        lines.append(head.rstrip())
        rest = rest[len(head) :].lstrip()
    return [*lines, cut(rest, columns)] if rest or not lines else lines
