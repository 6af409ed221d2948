"""The memory of an owner: a file of items that outlive runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from pydantic import Field, ValidationError

from goalrunner.core.base import Frozen
from goalrunner.core.errors import RecordError
from goalrunner.core.events import MemoryKind
from goalrunner.core.limits import Sensitivity
from goalrunner.records.event_log import WriterLock
from goalrunner.records.log_lines import AppendFile, encode
from goalrunner.records.run_folder import write_whole


class MemoryItem(Frozen):
    """One line of a memory file. (Source: the promotion rules of Goals and State.)"""

    memory_id: str = Field(pattern=r"^m[0-9a-f]{6,32}$", description='"m3f9a2c", never given twice')
    kind: MemoryKind
    text: str = Field(min_length=1)
    run_id: str = Field(description="the run that it stems from")
    source_ref: str = Field(description='the observation or event of that run which it rests on: "o7", "e12"')
    owner: str = Field(min_length=1, description="whose runs are told")
    permission: str = Field(description="who allowed it to be kept, or what")
    sensitivity: Sensitivity = "low"
    expires_at: str | None = Field(default=None, description="ISO 8601, UTC; None: never")
    promoted_by: str = Field(description="user@host")
    promoted_at: str = Field(description="ISO 8601, UTC")
    replaces: str = Field(default="", description="id of the item that this one corrects")

    def is_expired(self, now: datetime) -> bool:
        """Whether it is no longer to be told. A date that cannot be read is over: what is unclear is a no."""
        if self.expires_at is None:
            return False
        try:
            return datetime.fromisoformat(self.expires_at) <= now
        except (ValueError, TypeError):
            return True


_LONGEST_NAME = 100


@dataclass(frozen=True)
class Damage:
    """A line that is none: its file, its number from 1, and what is wrong."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}; it does not count"


class MemoryFile:
    """`GOAL_HOME/memory/<owner>.jsonl`, mode 0600."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, home: Path, owner: str) -> MemoryFile:
        """The file of an owner, whatever the name holds."""
        name = quote(owner, safe=" ")
        if len(name) > _LONGEST_NAME:
            name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(owner.encode()).hexdigest()[:16]}"
        return cls(home / "memory" / f"{name}.jsonl")

    def read(self) -> tuple[list[MemoryItem], list[Damage]]:
        """What is remembered, oldest first, and the lines that are damaged. Raises RecordError where it cannot be read.

        What was corrected is not among it.
        """
        items, damages = [], []
        for number, found in enumerate(self._lines(), start=1):
            if isinstance(found, MemoryItem):
                items.append(found)
            elif found:
                damages.append(Damage(self.path, number, found))
        corrected = {item.replaces for item in items}
        return [item for item in items if item.memory_id not in corrected], damages

    def holds(self, memory_id: str) -> bool:
        """Whether a line is that item, corrected or not. Raises RecordError."""
        return any(item.memory_id == memory_id for item in self._lines() if isinstance(item, MemoryItem))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write alone. Raises RecordError naming who else does."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        lock = WriterLock(self.path.with_suffix(".lock"))
        try:
            yield
        finally:
            lock.close()

    def append(self, item: MemoryItem) -> None:
        """Keep an item durably. Raises RecordError, the file unchanged."""
        file = AppendFile(self.path)
        try:
            file.append(encode(item.model_dump(mode="json")))
        finally:
            file.close()

    def forget(self, memory_id: str) -> tuple[MemoryItem, ...]:
        """Take an item out of the file, and everything that it corrected; gives what is gone. Raises RecordError.

        The lines are gone from the disk's view: nothing is kept under a mark. A damaged line stays as it is.
        """
        by_id = {item.memory_id: item for item in self._lines() if isinstance(item, MemoryItem)}
        gone: dict[str, MemoryItem] = {}
        wanted = memory_id
        while wanted in by_id and wanted not in gone:
            gone[wanted] = by_id[wanted]
            wanted = by_id[wanted].replaces
        if gone:
            self._rewrite(
                [raw for raw, found in zip(self._raw(), self._lines(), strict=True) if not _is_in(found, gone)]
            )
        return tuple(gone.values())

    def _raw(self) -> list[bytes]:
        try:
            return self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RecordError(f"{self.path} cannot be read: {error.strerror}", "check its permissions") from error

    def _lines(self) -> list[MemoryItem | str]:
        """Each line as an item, or what is wrong with it; empty for an empty one."""
        return [_parsed(raw) for raw in self._raw()]

    def _rewrite(self, lines: Sequence[bytes]) -> None:
        try:
            write_whole(self.path, b"\n".join(lines))
        except OSError as error:
            raise _unwritable(self.path, error) from error


def list_items(home: Path, owner: str | None = None) -> tuple[list[MemoryItem], list[Damage]]:
    """What is remembered, of one owner or of all, and the damaged lines. Raises RecordError."""
    items, damages = [], []
    for file in _files(home, owner):
        found, wrong = file.read()
        items += [item for item in found if owner is None or item.owner == owner]
        damages += wrong
    return items, damages


def find_item(home: Path, memory_id: str) -> MemoryFile | None:
    """The file that holds an item of that id; None where there is none."""
    return next((file for file in _files(home, None) if file.holds(memory_id)), None)


def _files(home: Path, owner: str | None) -> list[MemoryFile]:
    if owner is not None:
        return [MemoryFile.of(home, owner)]
    return [MemoryFile(path) for path in sorted((home / "memory").glob("*.jsonl"))]


def _parsed(raw: bytes) -> MemoryItem | str:
    if not raw.strip():
        return ""
    try:
        return MemoryItem.model_validate(json.loads(raw))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg'].lower()}"
    except (ValueError, RecursionError):
        return "no JSON"


def _is_in(found: MemoryItem | str, gone: dict[str, MemoryItem]) -> bool:
    return isinstance(found, MemoryItem) and found.memory_id in gone


def _unwritable(path: Path, error: OSError) -> RecordError:
    return RecordError(f"cannot write {path}: {error.strerror}", "free some space, or set GOAL_HOME")
