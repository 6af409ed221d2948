"""The events of a run, a line each: place, time, kind, and what it is about. Owns the picture of `goal show --events`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from goalrunner.events import Record
from goalrunner.reports import figures
from goalrunner.reports.terminal_text import cut, one_line, pad

_KIND_COLUMNS = 21
_LONGEST = 200
_TELLING = (
    "step_id", "tool_call_id", "evidence_ref", "role", "summary", "account", "round", "moment", "standing", "passed",
    "approval_id", "kind", "decision", "by", "question", "stop_reason", "reason", "result_ref", "note", "action",
)  # fmt: skip
"""Fields that say what an event is about, in the order in which they are shown."""


def trail_text(records: Iterable[Record], columns: int | None = None) -> Iterator[str]:
    """One line a record, in memory that does not grow with the log."""
    width = columns or _LONGEST
    for record in records:
        event = record.event
        said = "  ".join(_told(name, value) for name in _TELLING if _says(value := getattr(event, name, None)))
        line = (
            f"{record.seq:>6}  {figures.elapsed(record.elapsed):>8}  {pad(event.type, _KIND_COLUMNS)}  {one_line(said)}"
        )
        yield cut(line, width).rstrip() + "\n"


def _says(value: Any) -> bool:
    return value is not None and value != ""


def _told(name: str, value: Any) -> str:
    return f"{name} {value}" if name in ("round", "passed") else str(value)
