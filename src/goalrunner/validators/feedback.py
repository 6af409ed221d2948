"""What of a check's output goes back to the agent. Owns the tail and its cleaning; the whole output stays in its file."""

from __future__ import annotations

import os
import re
from pathlib import Path

from goalrunner.model.validation import FEEDBACK_TAIL

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BYTES = 16 * FEEDBACK_TAIL
"""Enough for the characters of the tail and the colour codes among them."""
_LINES_BYTES = 256_000
_LONGEST_LINE = 1_000
_CONTINUATION = range(0x80, 0xC0)


def tail_of(path: Path) -> str:
    """The last FEEDBACK_TAIL characters of a file, without colour codes; invalid UTF-8 is replaced, no file is empty."""
    return tail(_end_of(path, _BYTES))


def last_lines(path: Path) -> list[str]:
    """The lines at the end of a file, without colour codes, where a test runner's summary stands; long ones are blank."""
    return lines_of(path, _LINES_BYTES)[0]


def lines_of(path: Path, most: int) -> tuple[list[str], bool]:
    """Return the lines of the last `most` bytes like `last_lines`, and whether they are the whole file."""
    lines = _COLOUR.sub("", _end_of(path, most)).split("\n")
    short = [line.rstrip("\r") if len(line) <= _LONGEST_LINE else "" for line in lines]
    return short, not path.exists() or path.stat().st_size <= most


def tail(text: str) -> str:
    """The last FEEDBACK_TAIL characters, without colour codes, NULs, and blanks at the ends."""
    return _COLOUR.sub("", text).replace("\0", "�").strip()[-FEEDBACK_TAIL:]


def _end_of(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - most, 0))
            data = file.read()
    except OSError:
        return ""
    if size > most:
        # The cut may have gone through a character: drop what is left of it.
        begin = next((at for at, byte in enumerate(data[:4]) if byte not in _CONTINUATION), 0)
        data = data[begin:]
    return data.decode(errors="replace")


def bounded(text: str) -> str:
    """A callable's feedback: whole up to four tails, then its two ends with the omission marked."""
    limit = 4 * FEEDBACK_TAIL
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters omitted ...]\n{text[-half:]}"
