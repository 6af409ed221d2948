"""Text as terminals show it: without control characters, in columns, wrapped."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence

ELLIPSIS = "…"
_GAP = "  "

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # OSC, DCS: title, links
    r"|\x1b[ -/]*[0-~]"
)
_JOINERS = "\u200c\u200d"
_PLAIN = re.compile(r"[\n\x20-\x7e]*")
_SPACE = re.compile(r"\s+")


def clean(text: str) -> str:
    """Return the text without escape sequences, control and direction characters; newlines stay, a tab is a space."""
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
    """Return clean text with every run of white space as one space."""
    return _SPACE.sub(" ", clean(text)).strip()


def width(text: str) -> int:
    """Return the columns of clean text: wide characters take two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """Return the text in at most so many columns, with `…` where something is missing."""
    if width(text) <= columns:
        return text
    return _head(text, columns - 1).rstrip() + ELLIPSIS if columns > 0 else ""


def _head(text: str, columns: int) -> str:
    taken = 0
    for index, character in enumerate(text):
        taken += _columns(character)
        if taken > columns:
            return text[:index]
    return text


def pad(text: str, columns: int) -> str:
    """Return the text, filled with spaces up to so many columns."""
    return text + " " * max(columns - width(text), 0)


def wrap(text: str, columns: int, rows: int) -> list[str]:
    """Return one line of clean text on at most so many rows; the last one is cut if there is more. Never empty."""
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


def table(rows: Sequence[Sequence[str]], columns: int | None = None, least: int = 0) -> list[str]:
    """Return rows with aligned cells. The last column is cut to a terminal's width, but not below `least` columns."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    room = widths[-1] if columns is None else max(table_room(rows, columns), least)
    padded = [[pad(cell, wide) for cell, wide in zip(row[:-1], widths, strict=False)] for row in rows]
    return [_GAP.join([*cells, cut(row[-1], room)]).rstrip() for cells, row in zip(padded, rows, strict=True)]


def table_room(rows: Sequence[Sequence[str]], columns: int) -> int:
    """Return the columns that are left for the last column of a table."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    return columns - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)


def home_path(path: str) -> str:
    """Return a path with the home folder as `~`."""
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - pathlib raises where there is no home
    if not home or home == "~" or not f"{path}/".startswith(f"{home}/"):
        return path
    return f"~{path[len(home) :]}"


def model_name(model: str) -> str:
    """Return the name of a model; of a recording, the file name without folders."""
    provider, slash, path = model.partition("/")
    return f"{provider}{slash}{path.rpartition('/')[2]}" if provider == "scripted" else model
