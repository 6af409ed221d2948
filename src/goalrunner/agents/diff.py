"""Unified diffs in bounded time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

_CONTEXT = 3
_MOST_LINES = 2_000
"""Lines between the common beginning and end, old and new together; more of them are shown as one replacement."""
_Opcode = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


@dataclass(frozen=True)
class Diff:
    """A unified diff and how many lines it adds and removes."""

    text: str
    added: int = 0
    removed: int = 0

    @property
    def summary(self) -> str:
        """Return `+4 −1`."""
        return f"+{self.added} −{self.removed}"


def unified(old: str, new: str, path: str, *, created: bool = False) -> Diff:
    """Return the change from `old` to `new`, with three lines of context."""
    before, after = _lines(old), _lines(new)
    rendered = [f"--- {'/dev/null' if created else path}\n", f"+++ {path}\n"]
    added = removed = 0
    for group in _Matcher(before, after).get_grouped_opcodes(_CONTEXT) if old != new else ():
        rendered.append(f"@@ -{_span(group[0][1], group[-1][2])} +{_span(group[0][3], group[-1][4])} @@\n")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                rendered += [_line(" ", line) for line in before[old_start:old_end]]
                continue
            rendered += [_line("-", line) for line in before[old_start:old_end]]
            rendered += [_line("+", line) for line in after[new_start:new_end]]
            removed += old_end - old_start
            added += new_end - new_start
    return Diff("".join(rendered), added, removed)


def _lines(text: str) -> list[str]:
    """Return the lines with their ends; only \\n ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


class _Matcher(SequenceMatcher[str]):
    """A matcher that does not compare the common beginning and end, because its cost is quadratic."""

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        super().__init__()
        self._texts = before, after

    def get_opcodes(self) -> list[_Opcode]:
        """Return how the texts differ."""
        before, after = self._texts
        most = min(len(before), len(after))
        head = next((at for at in range(most) if before[at] != after[at]), most)
        tail = next((at for at in range(most - head) if before[-1 - at] != after[-1 - at]), most - head)
        old_end, new_end = len(before) - tail, len(after) - tail
        old, new = before[head:old_end], after[head:new_end]
        inner: list[_Opcode] = [("replace", 0, len(old), 0, len(new))]
        if len(old) + len(new) <= _MOST_LINES:
            inner = [*SequenceMatcher(None, old, new).get_opcodes()]
        shifted = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in inner]
        return [("equal", 0, head, 0, head), *shifted, ("equal", old_end, len(before), new_end, len(after))]


def _span(start: int, end: int) -> str:
    """Return a range as diff writes it: an empty one by the line before it, a single line without its length."""
    length = end - start
    return f"{start + 1}" if length == 1 else f"{start + 1 if length else start},{length}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
