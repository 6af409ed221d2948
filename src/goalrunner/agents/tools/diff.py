"""What an edit changed, as a unified diff. Owns the rendering; its cost is bounded for any two texts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

_CONTEXT = 3
_MOST_LINES = 2_000
"""Of what lies between the shared ends, old and new together; more is shown as one replacement."""
_Opcode = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Diff:
    """A unified diff and how many lines it adds and removes."""

    text: str
    added: int
    removed: int

    @property
    def summary(self) -> str:
        """`+4 −1`, for people."""
        return f"+{self.added} −{self.removed}"


def unified(old: str, new: str, path: str, *, created: bool = False) -> Diff:
    """The change from `old` to `new`, with three lines of context. A text that grows large is compared in one piece."""
    before, after = _lines(old), _lines(new)
    added = removed = 0
    rendered = [f"--- {'/dev/null' if created else path}\n", f"+++ {path}\n"]
    for group in _groups(_opcodes(before, after)):
        rendered.append(_range(group))
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
    """Lines with their ends; only \\n ends one, so that no other separator is lost or made."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _opcodes(before: Sequence[str], after: Sequence[str]) -> list[_Opcode]:
    """difflib's opcodes, with what both ends share cut off first, because its cost grows with the square."""
    most = min(len(before), len(after))
    head = next((at for at in range(most) if before[at] != after[at]), most)
    tail = next((at for at in range(most - head) if before[-1 - at] != after[-1 - at]), most - head)
    middle_old, middle_new = before[head : len(before) - tail], after[head : len(after) - tail]
    inner: list[_Opcode]
    if len(middle_old) + len(middle_new) > _MOST_LINES or not middle_old or not middle_new:
        changed = bool(middle_old or middle_new)
        inner = [("replace", 0, len(middle_old), 0, len(middle_new))] if changed else []
    else:
        inner = [*difflib.SequenceMatcher(None, middle_old, middle_new).get_opcodes()]
    shifted = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in inner]
    old_end, new_end = len(before) - tail, len(after) - tail
    return [("equal", 0, head, 0, head), *shifted, ("equal", old_end, len(before), new_end, len(after))]


def _groups(opcodes: list[_Opcode]) -> list[list[_Opcode]]:
    """Hunks: changes with their context, apart where more than twice the context lies between."""
    groups: list[list[_Opcode]] = []
    group: list[_Opcode] = []
    if all(tag == "equal" for tag, *_ in opcodes):
        return []
    for position, (tag, a, b, c, d) in enumerate(opcodes):
        if tag != "equal":
            group.append((tag, a, b, c, d))
            continue
        first, last = position == 0, position == len(opcodes) - 1
        if not last and not first and b - a <= 2 * _CONTEXT:
            group.append((tag, a, b, c, d))
            continue
        if not first and group:
            kept = min(_CONTEXT, b - a)
            groups.append([*group, ("equal", a, a + kept, c, c + kept)])
        kept = min(_CONTEXT, b - a)
        group = [] if last else [("equal", b - kept, b, d - kept, d)]
    return groups


def _range(group: list[_Opcode]) -> str:
    return f"@@ -{_span(group[0][1], group[-1][2])} +{_span(group[0][3], group[-1][4])} @@\n"


def _span(start: int, end: int) -> str:
    """As diff writes it: an empty range is named by the line before it, a single line without its length."""
    length = end - start
    return f"{start + 1}" if length == 1 else f"{start + 1 if length else start},{length}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
