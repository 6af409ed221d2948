"""Text in the columns of a terminal: printable, cut, wrapped and aligned."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from rich.cells import cell_len, set_cell_size

ELLIPSIS = "…"
width = cell_len
"""Return the columns of printable text; wide characters take two."""

_ESCAPES = re.compile(
    # CSI: colours and movements of the cursor.
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
    # OSC and DCS: titles and links.
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]"
)
# Most texts are plain ASCII; no character of them needs to be looked at.
_PLAIN = re.compile(r"[\n\x20-\x7e]*")
_SPACES = "\t\x0b\x0c\x85\u2028\u2029"
# Needed to write Persian and Indic scripts and emoji, although they are invisible.
_JOINERS = "\u200c\u200d"
_NOT_IN_XML = "\ufffe\uffff"


# The same few characters occur again and again; a lookup is faster than `unicodedata`.
@lru_cache(maxsize=4096)
def _visible(character: str) -> str:
    """Return a character as it is shown; control characters are empty."""
    if character in _SPACES:
        return " "
    if character in _JOINERS or character == "\n":
        return character
    category = unicodedata.category(character)
    # Format characters (Cf) include those that reverse the direction of text, with
    # which a command can be shown as another one.
    if category in ("Cc", "Cf") or character in _NOT_IN_XML:
        return ""
    # Half of a surrogate pair cannot be encoded.
    return "\ufffd" if category == "Cs" else character


def printable(text: str) -> str:
    """Return the text without escape sequences, control and direction characters.

    Newlines stay, a tab is a space.
    """
    if _PLAIN.fullmatch(text):
        return text
    return "".join(map(_visible, _ESCAPES.sub("", text)))


def printable_line(text: str) -> str:
    """Return printable text with every run of white space as one space."""
    return " ".join(printable(text).split())


def cut(text: str, columns: int) -> str:
    """Return the text in at most so many columns; `…` stands for what is missing."""
    if width(text) <= columns:
        return text
    if columns <= 0:
        return ""
    return set_cell_size(text, columns - 1).rstrip() + ELLIPSIS


def pad(text: str, columns: int) -> str:
    """Return the text, filled with spaces up to so many columns."""
    return text + " " * max(columns - width(text), 0)


def wrap(text: str, columns: int, rows: int) -> list[str]:
    """Return one line of printable text on 1 to `rows` rows.

    The last row is cut if the text needs more.
    """
    columns = max(columns, 1)
    unplaced = text.strip()
    wrapped: list[str] = []
    while len(wrapped) < rows - 1 and width(unplaced) > columns:
        end = _fitting_length(unplaced, columns)
        space = unplaced.rfind(" ", 1, end + 1)
        if space > 0:
            end = space
        wrapped.append(unplaced[:end].rstrip())
        unplaced = unplaced[end:].lstrip()
    last = cut(unplaced, columns)
    # Half of a word could be read as another word.
    if last != unplaced and " " in last:
        last = last.rpartition(" ")[0] + ELLIPSIS
    return [*wrapped, last]


def _fitting_length(text: str, columns: int) -> int:
    """Return how many characters fit; at least one, so that wrapping goes on."""
    for length in range(columns, 1, -1):
        if width(text[:length]) <= columns:
            return length
    return 1


def hanging(line: str, columns: int, rows: int) -> list[str]:
    """Return a printable line of output on 1 to `rows` rows, with its indentation.

    Rows after the first are indented by two more columns.
    """
    indentation = len(line) - len(line.lstrip())
    # Deep indentation would leave no room for the text.
    lead = line[: min(indentation, columns // 2)]
    if width(line) <= columns:
        return [lead + line.strip()]
    first, *others = wrap(line, columns - len(lead) - 2, rows)
    return [lead + first, *(f"{lead}  {part}" for part in others)]


def join_nonempty(separator: str, *parts: str) -> str:
    """Return the parts that are not empty, joined."""
    return separator.join(filter(None, parts))


def lines_text(lines: Iterable[str]) -> str:
    """Return lines as text, each ended by a newline."""
    return "".join(f"{line}\n" for line in lines)


def table(
    rows: Sequence[Sequence[str]], columns: int | None = None, least: int = 0
) -> list[str]:
    """Return rows with aligned cells.

    The last column is cut to the width of a terminal, but not below `least` columns.
    """
    widths = _column_widths(rows)
    room = widths[-1]
    if columns is not None:
        room = max(table_room(rows, columns), least)
    lines = []
    for row in rows:
        cells = [pad(cell, widths[number]) for number, cell in enumerate(row[:-1])]
        lines.append("  ".join([*cells, cut(row[-1], room)]).rstrip())
    return lines


def table_room(rows: Sequence[Sequence[str]], columns: int) -> int:
    """Return the columns that remain for the last column of a table."""
    others = _column_widths(rows)[:-1]
    return columns - sum(others) - 2 * len(others)


def _column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(width, column)) for column in zip(*rows, strict=True)]
