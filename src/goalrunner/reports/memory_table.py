"""The memory that runs have kept, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from goalrunner.reports.terminal_text import lines_text, printable_line, table

if TYPE_CHECKING:
    from goalrunner.app.memory import MemoryItem

_HEADINGS = ("ID", "KIND", "OWNER", "SOURCE", "SENSITIVITY", "EXPIRES", "TEXT")
_MIN_TEXT_COLUMNS = 20


def memory_text(
    items: Sequence[MemoryItem], *, now: datetime, columns: int | None = None
) -> str:
    """Return a row for each item, oldest first; empty for none.

    `columns` is the width of a terminal.
    """
    if not items:
        return ""
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for item in items:
        source = f"{item.source_ref} of {item.run_id}"
        cells = (
            item.memory_id,
            item.kind,
            item.owner,
            source,
            item.sensitivity,
            _expiry(item, now),
            item.text,
        )
        # A text may come from an agent, with escape sequences in it.
        rows.append(tuple(map(printable_line, cells)))
    return lines_text(table(rows, columns, _MIN_TEXT_COLUMNS))


def _expiry(item: MemoryItem, now: datetime) -> str:
    if item.is_expired(now):
        return "expired"
    # The date of an ISO 8601 time.
    return item.expires_at[:10] if item.expires_at else "never"


def forgotten_text(items: Sequence[MemoryItem]) -> str:
    """Return the text about items that were removed."""
    lines = []
    for item in items:
        lines.append(f"forgotten  {item.memory_id}  {printable_line(item.text)}")
    return lines_text(lines)
