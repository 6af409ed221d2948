"""The items that are kept for later runs of an owner."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from pydantic import Field, ValidationError

from goalrunner.core.errors import RecordError, record_errors
from goalrunner.core.events import MemoryKind
from goalrunner.core.field_types import Frozen
from goalrunner.records.files import LogInUse, WriterLock, write_whole

Sensitivity = Literal["low", "medium", "high"]

_LONGEST_NAME = 100


class MemoryItem(Frozen):
    """One line of a memory file. (Source: the promotion rules of Goals and State.)"""

    memory_id: str = Field(pattern=r"^m[0-9a-f]{6,32}$", description='"m3f9a2c", never given twice')
    kind: MemoryKind
    text: str = Field(min_length=1)
    run_id: str = Field(description="the run that it comes from")
    source_ref: str = Field(description='the observation or event of that run which it rests on: "o7", "e12"')
    owner: str = Field(min_length=1, description="in whose runs the agent gets it")
    permission: str = Field(description="who allowed it to be kept, or what")
    sensitivity: Sensitivity = "low"
    expires_at: str | None = Field(default=None, description="ISO 8601, UTC; None: never")
    promoted_by: str = Field(description="user@host")
    promoted_at: str = Field(description="ISO 8601, UTC")
    replaces: str = Field(default="", description="id of the item that this one corrects")

    def is_expired(self, now: datetime) -> bool:
        """Return whether it is no longer valid. A date that cannot be read counts as passed."""
        try:
            return self.expires_at is not None and datetime.fromisoformat(self.expires_at) <= now
        except (ValueError, TypeError):
            return True


class MemoryFile:
    """`GOAL_HOME/memory/<owner>.jsonl`, mode 0600. Lines that are damaged stay as they are."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, home: Path, owner: str) -> MemoryFile:
        """Return the file of an owner, whatever characters the name has."""
        name = quote(owner, safe=" ")
        if len(name) > _LONGEST_NAME:
            name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(owner.encode()).hexdigest()[:16]}"
        return cls(home / "memory" / f"{name}.jsonl")

    def lines(self) -> list[tuple[bytes, MemoryItem | str]]:
        """Return each line with its item, corrected or not, or with what is wrong in it. Raise RecordError."""
        found: list[tuple[bytes, MemoryItem | str]] = []
        with record_errors(f"{self.path} cannot be read", "check its permissions"):
            for raw in self.path.read_bytes().splitlines() if self.path.exists() else ():
                try:
                    found.append((raw, MemoryItem.model_validate_json(raw)))
                except ValidationError as error:
                    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
                    said = f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg'].lower()}"
                    found.append((raw, "no JSON" if first["type"] == "json_invalid" else said))
        return found

    def read(self) -> tuple[list[MemoryItem], list[str]]:
        """Return the items that were not corrected, oldest first, and a message for each damaged line. Raise RecordError."""
        items: list[MemoryItem] = []
        damages: list[str] = []
        for number, (_, item) in enumerate(self.lines(), start=1):
            if isinstance(item, MemoryItem):
                items.append(item)
            else:
                damages.append(f"{self.path}:{number}: {item}; the line is ignored")
        corrected = {item.replaces for item in items}
        return [item for item in items if item.memory_id not in corrected], damages

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Lock the file. Raise RecordError that names the other writer."""
        with record_errors(f"cannot write {self.path}"):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            lock = WriterLock(self.path.with_suffix(".lock"))
        except LogInUse as error:
            raise RecordError(f"{self.path} is being changed by {error.owner}", "try again in a moment") from error
        try:
            yield
        finally:
            lock.close()

    def append(self, item: MemoryItem) -> None:
        """Add an item durably. Raise RecordError, the file unchanged."""
        self._write([*(raw for raw, _ in self.lines()), item.model_dump_json().encode()])

    def forget(self, memory_id: str) -> tuple[MemoryItem, ...]:
        """Remove an item, and every item that it corrected, from the file; return them. Raise RecordError."""
        lines = self.lines()
        by_id = {item.memory_id: item for _, item in lines if isinstance(item, MemoryItem)}
        gone: list[MemoryItem] = []
        while (found := by_id.pop(memory_id, None)) is not None:
            gone.append(found)
            memory_id = found.replaces
        if gone:
            self._write([raw for raw, item in lines if item not in gone])
        return tuple(gone)

    def _write(self, lines: list[bytes]) -> None:
        with record_errors(f"cannot write {self.path}"):
            write_whole(self.path, b"".join(line + b"\n" for line in lines))


def list_items(home: Path, owner: str | None = None) -> tuple[list[MemoryItem], list[str]]:
    """Return the items of one owner or of all, and a message for each damaged line. Raise RecordError."""
    found = [file.read() for file in (_files(home) if owner is None else [MemoryFile.of(home, owner)])]
    items = [item for part, _ in found for item in part if owner in (None, item.owner)]
    return items, [damage for _, part in found for damage in part]


def find_item(home: Path, memory_id: str) -> MemoryFile | None:
    """Return the file that holds an item of that id, corrected or not; None if there is none."""
    for file in _files(home):
        if any(isinstance(item, MemoryItem) and item.memory_id == memory_id for _, item in file.lines()):
            return file
    return None


def _files(home: Path) -> list[MemoryFile]:
    return [MemoryFile(path) for path in sorted((home / "memory").glob("*.jsonl"))]
