"""Promoting one fact of a run: policy, line, event. Owns the order; the rules are the policy's."""

from __future__ import annotations

import secrets
import tomllib
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pydantic import ValidationError

from goalrunner import policy
from goalrunner.errors import RecordError, UsageError
from goalrunner.eventlog import EventLog
from goalrunner.events import MemoryPromoted
from goalrunner.events.memory import MemoryKind
from goalrunner.memory.file import MemoryFile
from goalrunner.memory.item import MemoryItem
from goalrunner.memory.source import Source, find_source
from goalrunner.model.goal import MemoryConfig
from goalrunner.policy import Sensitivity
from goalrunner.ports import Clock
from goalrunner.redaction import Redactor
from goalrunner.runs import RunFolder


@dataclass(frozen=True)
class Request:
    """What somebody wants to be remembered."""

    item: str
    """The observation ("o7") or event ("e12") that it rests on."""
    kind: MemoryKind
    by: str
    """user@host"""
    text: str = ""
    """Empty: the observation's own output."""
    expires: float | None = None
    """Seconds; None: never."""
    sensitivity: Sensitivity = "low"
    permission: str = ""
    replaces: str = ""


def promote(folder: RunFolder, home: Path, request: Request, clock: Clock, redactor: Redactor) -> MemoryItem:
    """Keep one fact of a run under `home`. Raises UsageError naming the key that refuses it.

    RecordError where the run is living, its records are damaged, or nothing can be written.
    """
    owner, allowed = frozen_policy(folder)
    source = find_source(folder, request.item)
    text = redactor.text(request.text.strip() or source.text)
    wanted = policy.Promotion(
        request.kind, text, request.sensitivity, request.permission, expires=request.expires is not None
    )
    refusal = policy.promotion_refusal(wanted, allowed, owner, source.observation)
    if refusal is not None:
        raise UsageError(refusal.why, refusal.remedy)
    file = MemoryFile.of(home, owner)
    with EventLog(folder.events, clock, redactor) as log, file.writing():
        item = _item(folder, source, request, text, redactor, owner, clock)
        _refuse_twice(file, item, request.replaces)
        file.append(item)
        try:
            log.append(MemoryPromoted(memory_id=item.memory_id, kind=item.kind, source_ref=item.source_ref))
        except RecordError:
            file.forget(item.memory_id)
            raise
    return item


def frozen_policy(folder: RunFolder) -> tuple[str, tuple[str, ...]]:
    """Owner and kinds that may be promoted, of the goal as it was when the run began. What cannot be read allows nothing."""
    try:
        table = tomllib.loads(folder.goal_file.read_text(encoding="utf-8"))
        memory = MemoryConfig.model_validate(table.get("memory", {}))
        return str(table.get("owner", "")), memory.promote
    except (OSError, ValueError, ValidationError) as error:
        said = f"{folder.goal_file} cannot be read, so nothing of run {folder.run_id} may be promoted"
        raise UsageError(said, "[memory] promote of that goal would have to allow it") from error


def _item(
    folder: RunFolder, source: Source, request: Request, text: str, redactor: Redactor, owner: str, clock: Clock
) -> MemoryItem:
    now = clock.now()
    expires = None if request.expires is None else (now + timedelta(seconds=request.expires)).isoformat()
    return MemoryItem(
        memory_id=f"m{secrets.token_hex(4)}",
        kind=request.kind,
        text=text,
        run_id=folder.run_id,
        source_ref=source.reference,
        owner=owner,
        permission=redactor.text(request.permission.strip()) or f'[memory] promote = ["{request.kind}"] of the goal',
        sensitivity=request.sensitivity,
        expires_at=expires,
        promoted_by=request.by,
        promoted_at=now.isoformat(),
        replaces=request.replaces,
    )


def _refuse_twice(file: MemoryFile, new: MemoryItem, replaces: str) -> None:
    items, _ = file.read()
    if replaces and replaces not in {item.memory_id for item in items}:
        raise UsageError(f'there is no item "{replaces}" of owner "{new.owner}" to correct', "goal memory")
    same = ("kind", "text", "run_id", "source_ref")
    for item in items:
        if item.memory_id != replaces and all(getattr(item, name) == getattr(new, name) for name in same):
            raise UsageError(f"{item.memory_id} is that already", f"to change it: --replaces {item.memory_id}")
