"""Unified diffs of two texts."""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

# Lines from the first to the last change, old and new, that are compared at most: a
# diff may take quadratic time.
_MOST_COMPARED = 4_000
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# As git and diff write it.
_NO_NEWLINE = "\\ No newline at end of file\n"


class Diff(NamedTuple):
    """A unified diff, and how many lines it adds and removes: `+4 −1`."""

    text: str
    summary: str


def unified(old: str, new: str, path: str, *, created: bool = False) -> Diff:
    """Return the change from `old` to `new`, with three lines of context.

    Only \\n ends a line.
    """
    before = _LINE.findall(old)
    after = _LINE.findall(new)
    # Lines at both ends that are the same need no comparison.
    head = _in_common(before, after)
    tail = _in_common(before[head:][::-1], after[head:][::-1])
    compared = len(before) + len(after) - 2 * (head + tail)
    if compared > _MOST_COMPARED:
        return Diff(
            f"{path}: {len(before):,} lines became {len(after):,} lines\n",
            f"+{len(after)} −{len(before)}",
        )
    old_path = "/dev/null" if created else path
    # Without the heading of difflib, which is missing if nothing differs.
    rows = list(difflib.unified_diff(before, after, old_path, path))[2:]
    text = f"--- {old_path}\n+++ {path}\n"
    added = removed = 0
    for row in rows:
        added += row.startswith("+")
        removed += row.startswith("-")
        text += row if row.endswith("\n") else f"{row}\n{_NO_NEWLINE}"
    return Diff(text, f"+{added} −{removed}")


def _in_common(one: list[str], other: list[str]) -> int:
    """Return how many lines at the beginning are the same."""
    count = 0
    for line, other_line in zip(one, other, strict=False):
        if line != other_line:
            break
        count += 1
    return count
