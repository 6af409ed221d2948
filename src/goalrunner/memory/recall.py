"""What a later run of the same owner is told. Owns choice and bounds; the words of a prompt are made elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from goalrunner.errors import RecordError
from goalrunner.memory.file import MemoryFile

MOST_ITEMS = 50
MOST_CHARACTERS = 8_000
_LONGEST = 500


@dataclass(frozen=True)
class Recalled:
    """What is told to the agent, one line each, newest last; and what people are told of it."""

    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def recall(home: Path, owner: str, now: datetime) -> Recalled:
    """The facts of an owner that have not expired. Never raises: what is wrong with the file is a note."""
    if not owner.strip():
        return Recalled(notes=("[memory] recall tells nothing: the goal names no owner",))
    try:
        items, damages = MemoryFile.of(home, owner).read()
    except RecordError as error:
        return Recalled(notes=(f"memory: {error.message}; nothing is told",))
    valid = [item for item in items if item.owner == owner and not item.is_expired(now)]
    lines: list[str] = []
    left = MOST_CHARACTERS
    for item in reversed(valid[-MOST_ITEMS:]):
        kind = item.kind.replace("_", " ")
        line = f"({kind}, {item.memory_id}, {item.source_ref} of run {item.run_id}) {_one_line(item.text)}"
        if len(line) > left:
            break
        left -= len(line)
        lines.insert(0, line)
    notes = [f"memory: {damage}" for damage in damages]
    if lines:
        more = f", the newest of {len(valid)}" if len(lines) < len(valid) else ""
        notes.append(f'the agent is told {len(lines)} remembered of owner "{owner}"{more} (goal memory)')
    return Recalled(tuple(lines), tuple(notes))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
