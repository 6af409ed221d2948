"""Promoting facts of a run, and recalling them in later runs."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from goalrunner.app.previous_run import frozen_table
from goalrunner.core import events
from goalrunner.core.errors import RecordError, UsageError
from goalrunner.core.events import MemoryKind, MemoryPromoted
from goalrunner.core.observation import Observation
from goalrunner.core.ports import Clock
from goalrunner.core.summary import observations_of
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog, read_records
from goalrunner.records.memory import MemoryFile, MemoryItem, Sensitivity
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder

MOST_ITEMS = 50
MOST_CHARACTERS = 8_000
"""Of all facts that are recalled."""
_LONGEST_FACT = 2_000
"""Characters of a remembered fact."""
_LONGEST = 500
"""Characters of a recalled fact."""


@dataclass(frozen=True)
class PromotionRequest:
    """A request to remember one fact of a run, which rests on the observation ("o7") or event ("e12") `item`.

    Without a `text`, the observation's own output is remembered. `expires` is in seconds.
    """

    item: str
    kind: MemoryKind
    by: str
    text: str = ""
    expires: float | None = None
    sensitivity: Sensitivity = "low"
    permission: str = ""
    replaces: str = ""


def promote(folder: RunFolder, home: Path, request: PromotionRequest, clock: Clock, redactor: Redactor) -> MemoryItem:
    """Keep one fact of a run under `home`, and return it. Raise UsageError with the key that refuses it.

    Raise RecordError if a process drives the run, its records are damaged, or nothing can be written.
    """
    table = frozen_table(folder)
    owner, allowed = str(table.get("owner", "")), table.get("memory", {}).get("promote", ())
    reference, observation = _source(folder, request.item)
    text = redactor.text(request.text.strip() or _text(folder, observation))
    _refuse(request, text, observation, allowed, owner)
    now, expires = clock.now(), request.expires
    item = MemoryItem(
        memory_id=f"m{secrets.token_hex(4)}",
        kind=request.kind,
        text=text,
        run_id=folder.run_id,
        source_ref=reference,
        owner=owner,
        permission=redactor.text(request.permission.strip()) or f'[memory] promote = ["{request.kind}"] of the goal',
        sensitivity=request.sensitivity,
        expires_at=None if expires is None else (now + timedelta(seconds=expires)).isoformat(),
        promoted_by=request.by,
        promoted_at=now.isoformat(),
        replaces=request.replaces,
    )
    file = MemoryFile.of(home, owner)
    with EventLog(folder.events, clock, redactor) as log, file.writing():
        _refuse_twice(file, item, request.replaces)
        file.append(item)
        try:
            log.append(MemoryPromoted(memory_id=item.memory_id, kind=item.kind, source_ref=item.source_ref))
        except RecordError:
            file.forget(item.memory_id)
            raise
    return item


def _refuse(
    request: PromotionRequest, text: str, source: Observation | None, allowed: Collection[str], owner: str
) -> None:
    """Raise UsageError if this text may not be kept. `source` is its observation, None for an event."""
    fresh = "and start a new run: the goal of a run is fixed"
    if request.kind not in allowed:
        raise UsageError(
            f"the goal of this run does not allow promoting the kind {request.kind}",
            f'write [memory] promote = ["{request.kind}"] in the goal file, {fresh}',
        )
    if not owner.strip():
        raise UsageError("the goal of this run names no owner", f'write owner = "..." in the goal file, {fresh}')
    if source is not None and not source.shows:
        raise UsageError(
            f"{source.id} ({source.source}) is not evidence: it contains the agent's words, or a call that did not run",
            "name an observation that shows it: goal show RUN --evidence",
        )
    if not 0 < len(text.strip()) <= _LONGEST_FACT:
        raise UsageError(f"a fact has 1 to {_LONGEST_FACT:,} characters, and this text has {len(text)}", '--text "..."')
    for lacks, option in (
        (request.sensitivity != "low" and not request.permission.strip(), '--permission "..."'),
        (request.sensitivity == "high" and request.expires is None, "--expires 30d"),
    ):
        if lacks:
            raise UsageError(f"a fact of {request.sensitivity} sensitivity needs {option.split()[0]}", option)


def _source(folder: RunFolder, item: str) -> tuple[str, Observation | None]:
    """Return the reference of an observation ("o7") or event ("e12", "12"), and the observation. Raise UsageError for none.

    The output of a hidden validator is refused, because the agent of a later run would read it.
    """
    for record in read_records(folder.events):
        if item.strip().lower() in (f"e{record.seq}", str(record.seq)):
            return f"e{record.seq}", None
        event = record.event
        for observation in observations_of(event):
            if observation.id != item.strip().lower():
                continue
            if isinstance(event, events.ValidatorsFinished | events.BaselineTaken) and observation in event.concealed:
                what = f"{observation.id} is from a hidden validator, whose output agents do not get"
                raise UsageError(what, "name another observation")
            return observation.id, observation
    raise UsageError(
        f'run {folder.run_id} has no observation or event "{item[:40]}"',
        f"name an observation (o7) or an event (e12) of it: goal show {folder.run_id} --evidence",
    )


def _text(folder: RunFolder, observation: Observation | None) -> str:
    """Return the output of an observation."""
    if observation is None or observation.output is None:
        return ""
    return ArtifactStore(folder.artifacts, Redactor({})).read(observation.output).decode(errors="replace").strip()


def _refuse_twice(file: MemoryFile, new: MemoryItem, replaces: str) -> None:
    items, _ = file.read()
    if replaces and replaces not in {item.memory_id for item in items}:
        raise UsageError(f'there is no item "{replaces}" of owner "{new.owner}" to correct', "goal memory")
    same = ("kind", "text", "run_id", "source_ref")
    for item in items:
        if item.memory_id != replaces and all(getattr(item, name) == getattr(new, name) for name in same):
            raise UsageError(
                f"{item.memory_id} has the same text and source", f"to change it: --replaces {item.memory_id}"
            )


@dataclass(frozen=True)
class Recalled:
    """Facts for the agent, one line each, newest last; and notes for people."""

    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def recall(home: Path, owner: str, now: datetime) -> Recalled:
    """Return the facts of an owner that have not expired. Never raise: damage of the file is a note."""
    if not owner.strip():
        return Recalled(notes=("[memory] recall has no effect: the goal names no owner",))
    try:
        items, damages = MemoryFile.of(home, owner).read()
    except RecordError as error:
        return Recalled(notes=(f"memory: {error.message}; nothing is recalled",))
    valid = [item for item in items if item.owner == owner and not item.is_expired(now)]
    lines: list[str] = []
    left = MOST_CHARACTERS
    for item in reversed(valid[-MOST_ITEMS:]):
        kind, text = item.kind.replace("_", " "), " ".join(item.text.split())
        text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        line = f"({kind}, {item.memory_id}, {item.source_ref} of run {item.run_id}) {text}"
        if len(line) > left:
            break
        left -= len(line)
        lines.insert(0, line)
    notes = [f"memory: {damage}" for damage in damages]
    if lines:
        more = f", the newest of {len(valid)}" if len(lines) < len(valid) else ""
        notes.append(f'the agent reads {len(lines)} remembered facts of owner "{owner}"{more} (goal memory)')
    return Recalled(tuple(lines), tuple(notes))
