"""The text of `goal memory`, `goal promote` and `goal forget`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from goalrunner.memory import MemoryItem
from goalrunner.reports.terminal_text import cut, one_line, pad, width

_HEADINGS = ("ID", "KIND", "OWNER", "SOURCE", "SENSITIVITY", "EXPIRES", "TEXT")
_GAP = "  "
_LEAST_TEXT = 20


def memory_text(items: Sequence[MemoryItem], *, now: datetime, columns: int | None = None) -> str:
    """One row an item, oldest first; empty for none. `columns` is a terminal's width: texts are cut to it."""
    if not items:
        return ""
    table = [_HEADINGS, *(_cells(item, now) for item in items)]
    widths = [max(map(width, column)) for column in zip(*table, strict=True)]
    room = columns - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1) if columns is not None else widths[-1]
    return "".join(_row(cells, widths, max(room, _LEAST_TEXT)) + "\n" for cells in table)


def promoted_text(item: MemoryItem) -> str:
    """What was kept, and for whom."""
    until = f" until {item.expires_at[:10]}" if item.expires_at else ""
    corrected = f", in place of {item.replaces}" if item.replaces else ""
    return (
        f'{item.memory_id}  {item.kind} from {item.source_ref} of run {item.run_id}, for runs of "{one_line(item.owner)}"'
        f"{until}{corrected}\n{one_line(item.text)}\n"
    )


def forgotten_text(items: Sequence[MemoryItem]) -> str:
    """What is gone."""
    return "".join(f"forgotten  {item.memory_id}  {one_line(item.text)}\n" for item in items)


def _cells(item: MemoryItem, now: datetime) -> tuple[str, ...]:
    return (
        item.memory_id,
        item.kind,
        one_line(item.owner),
        f"{item.source_ref} of {one_line(item.run_id)}",
        item.sensitivity,
        _expiry(item, now),
        one_line(item.text),
    )


def _expiry(item: MemoryItem, now: datetime) -> str:
    if item.expires_at is None:
        return "never"
    return "expired" if item.is_expired(now) else item.expires_at[:10]


def _row(cells: Sequence[str], widths: Sequence[int], room: int) -> str:
    *others, text = cells
    padded = [pad(cell, size) for cell, size in zip(others, widths, strict=False)]
    return _GAP.join([*padded, cut(text, room)]).rstrip()
