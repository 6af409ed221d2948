"""Facts of runs that later runs of an owner recall."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from goalrunner.core.errors import RecordError, UsageError, one_line, record_errors
from goalrunner.core.events import MemoryKind
from goalrunner.core.field_types import Frozen, first_problem
from goalrunner.records.files import write_whole

# A run recalls the newest facts within these limits, so that the prompt stays small.
MOST_ITEMS = 50
MOST_CHARACTERS = 8_000
_LONGEST = 500  # characters of a recalled fact
_MOMENT = r"^\d{4}-\d\d-\d\dT[\d:.]+\+00:00$"
Sensitivity = Literal["low", "medium", "high"]


class MemoryItem(Frozen):
    """One line of the file. (Source: the promotion rules of Goals and State.)"""

    memory_id: str = Field(
        pattern=r"^m[0-9a-f]{6,32}$", description='"m3f9a2c", never given twice'
    )
    kind: MemoryKind
    text: str = Field(min_length=1)
    run_id: str = Field(description="the run that it comes from")
    source_ref: str = Field(
        description='the observation or event that it rests on: "o7", "e12"'
    )
    owner: str = Field(min_length=1, description="whose runs recall it")
    permission: str = Field(description="who or what allowed it to be kept")
    sensitivity: Sensitivity = "low"
    expires_at: str | None = Field(
        default=None, pattern=_MOMENT, description="ISO 8601, UTC; None: never"
    )
    promoted_by: str = Field(description="user@host")
    promoted_at: str = Field(description="ISO 8601, UTC")
    replaces: str = Field(
        default="", description="id of the item that this one corrects"
    )

    def is_expired(self, now: datetime) -> bool:
        """Return whether it is no longer valid; `now` is in UTC, as the moments are."""
        return self.expires_at is not None and self.expires_at <= now.isoformat()


def items_file(home: Path) -> Path:
    """Return the file of all items."""
    return home / "memory" / "items.jsonl"


@contextmanager
def locked_items(home: Path) -> Iterator[None]:
    """Wait until no other process changes the file.

    Raise RecordError if it cannot be written.
    """
    folder = items_file(home).parent
    with record_errors(f"cannot write {folder}"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            # The lock ends with the process, even if that is killed.
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


@dataclass(frozen=True)
class _Content:
    """The content of the file."""

    items: list[MemoryItem]
    """Oldest first, also those that were corrected."""
    damages: list[str]
    """A message for each damaged line."""
    lines: list[bytes]


def _read(home: Path) -> _Content:
    """Return the content of the file. Raise RecordError."""
    path = items_file(home)
    with record_errors(f"{path} cannot be read", "check its permissions"):
        lines = path.read_bytes().splitlines() if path.exists() else []
    items: list[MemoryItem] = []
    damages: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            items.append(MemoryItem.model_validate_json(line))
        except ValidationError as error:
            problem = first_problem(error)
            damages.append(f"{path}:{number}: {problem}; the line is ignored")
    return _Content(items, damages, lines)


def list_items(
    home: Path, owner: str | None = None
) -> tuple[list[MemoryItem], list[str]]:
    """Return the valid items of one owner or of all.

    Return a message for each damaged line as well. Raise RecordError.
    """
    content = _read(home)
    corrected = {item.replaces for item in content.items}
    items: list[MemoryItem] = []
    for item in content.items:
        if owner in (None, item.owner) and item.memory_id not in corrected:
            items.append(item)
    return items, content.damages


def forget_fact(home: Path, memory_id: str) -> list[MemoryItem]:
    """Remove an item, and every item that it corrected; return them.

    Raise UsageError for an unknown id, and RecordError.
    """
    with locked_items(home):
        content = _read(home)
        by_id = {item.memory_id: item for item in content.items}
        removed: list[MemoryItem] = []
        next_id = memory_id
        # `pop`, so that a circle of corrections has an end.
        while item := by_id.pop(next_id, None):
            removed.append(item)
            next_id = item.replaces
        if not removed:
            raise UsageError(
                f'there is no kept fact with the id "{memory_id[:40]}"',
                "goal memory lists all items",
            )
        # Other lines stay as they are, damaged ones too.
        marks = [f'"memory_id":"{item.memory_id}"'.encode() for item in removed]
        text = b""
        for line in content.lines:
            if not any(mark in line for mark in marks):
                text += line + b"\n"
        write_whole(items_file(home), text)
        return removed


def recall(
    home: Path, owner: str, now: datetime
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the facts of an owner that have not expired, and notes for people.

    The facts are one line each, newest last. Never raise: damage of the file is a note.
    """
    if not owner.strip():
        return (), ("[memory] recall has no effect: the goal names no owner",)
    try:
        items, damages = list_items(home, owner)
    except RecordError as error:
        return (), (f"memory: {error.message}; nothing is recalled",)
    # Expired items stay in the file until they are forgotten.
    valid = [item for item in items if not item.is_expired(now)]
    lines: list[str] = []
    characters = 0
    # The newest facts count most, so the oldest are left out.
    for item in reversed(valid[-MOST_ITEMS:]):
        line = _line_of(item)
        characters += len(line)
        if characters > MOST_CHARACTERS:
            break
        lines.insert(0, line)
    notes = [f"memory: {damage}" for damage in damages]
    if lines:
        more = ""
        if len(lines) < len(valid):
            more = f", the newest of {len(valid)}"
        notes.append(
            f'the agent reads {len(lines)} remembered facts of owner "{owner}"{more} '
            "(goal memory)"
        )
    return tuple(lines), tuple(notes)


def _line_of(item: MemoryItem) -> str:
    kind, text = item.kind.replace("_", " "), one_line(item.text, _LONGEST)
    return f"({kind}, {item.memory_id}, {item.source_ref} of run {item.run_id}) {text}"
