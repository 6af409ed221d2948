"""The end of the output of a check."""

from __future__ import annotations

import re
from pathlib import Path

from goalrunner.core.verdict import FEEDBACK_TAIL
from goalrunner.system.launcher import tail_of

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BYTES = 16 * FEEDBACK_TAIL
"""Enough for the characters of the tail and the colour codes among them."""
_LONGEST_LINE = 1_000


def feedback_of(path: Path) -> str:
    """Return the last FEEDBACK_TAIL characters of a file, without colour codes.

    Empty if there is no file. A longer text begins with a whole line, if that is not
    very long.
    """
    text = _COLOUR.sub("", tail_of(path, _BYTES)).strip()
    if len(text) <= FEEDBACK_TAIL:
        return text
    tail = text[-FEEDBACK_TAIL:]
    return tail[tail.find("\n", 0, _LONGEST_LINE) + 1 :]


def text_of_end(path: Path, most: int) -> tuple[str, bool]:
    """Return the last `most` bytes of an output, and whether they are all of it.

    Colour codes and very long lines are removed: the patterns of test runners are slow
    on a line of megabytes.
    """
    lines: list[str] = []
    for line in _COLOUR.sub("", tail_of(path, most)).split("\n"):
        lines.append("" if len(line) > _LONGEST_LINE else line.rstrip("\r"))
    return "\n".join(lines), not path.exists() or path.stat().st_size <= most
