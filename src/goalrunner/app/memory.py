"""Promoting facts of a run, and recalling them in later runs."""

from __future__ import annotations

import re
import secrets
import tomllib
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from goalrunner.core import events
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.events import MemoryKind, MemoryPromoted
from goalrunner.core.evidence import observations_of
from goalrunner.core.goal import MemoryConfig
from goalrunner.core.limits import LONGEST, Promotion, Sensitivity, promotion_refusal
from goalrunner.core.observation import Observation
from goalrunner.core.ports import Clock
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog
from goalrunner.records.memory import MemoryFile, MemoryItem
from goalrunner.records.reading import read_records
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder

_REFERENCE = re.compile(r"(o|e|)([1-9][0-9]{0,9})", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """What is referred to, and what it says itself; an event says nothing."""

    reference: str
    observation: Observation | None = None
    text: str = ""


def find_source(folder: RunFolder, item: str) -> Source:
    """The observation ("o7") or event ("e12", "12") of a run. Raises UsageError for none, RecordError for damage."""
    match = _REFERENCE.fullmatch(item.strip())
    if match is None:
        raise _unknown(folder, item)
    kind, number = match[1].lower() or "e", int(match[2])
    for record in read_records(folder.events):
        if kind == "e" and record.seq == number:
            return Source(f"e{number}")
        for observation in observations_of(record.event) if kind == "o" else ():
            if observation.id == f"o{number}":
                _refuse_hidden(record.event, observation)
                return Source(observation.id, observation, _text(folder, observation))
    raise _unknown(folder, item)


def _refuse_hidden(event: events.Event, observation: Observation) -> None:
    """Raises UsageError: what a hidden validator says would be told to the agent of a later run."""
    concealed = event.concealed if isinstance(event, events.ValidatorsFinished | events.BaselineTaken) else ()
    if any(item.id == observation.id for item in concealed):
        raise UsageError(
            f"{observation.id} is of a hidden validator, which never speaks to an agent", "name another observation"
        )


def _text(folder: RunFolder, observation: Observation) -> str:
    """The output, as far as it can be a fact; a longer one is told by its length alone."""
    ref = observation.output
    if ref is None:
        return ""
    data = ArtifactStore(folder.artifacts, Redactor({})).read(ref)
    return data.decode("utf-8", errors="replace")[: LONGEST * 10].strip()


def _unknown(folder: RunFolder, item: str) -> UsageError:
    return UsageError(
        f'run {folder.run_id} has no observation or event "{item[:40]}"',
        f"name an observation (o7) or an event (e12) of it: goal show {folder.run_id} --evidence",
    )


@dataclass(frozen=True)
class Request:
    """A request to remember one fact of a run."""

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
    wanted = Promotion(request.kind, text, request.sensitivity, request.permission, expires=request.expires is not None)
    refusal = promotion_refusal(wanted, allowed, owner, source.observation)
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
