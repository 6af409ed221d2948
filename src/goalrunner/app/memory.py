"""Facts of runs that are kept for later runs of an owner: their files, promoting a fact, and recalling them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from pydantic import Field, ValidationError

from goalrunner.core import events
from goalrunner.core.errors import RecordError, UsageError, record_errors
from goalrunner.core.events import MemoryKind, MemoryPromoted
from goalrunner.core.field_types import Frozen
from goalrunner.core.observation import Observation
from goalrunner.core.ports import Clock
from goalrunner.core.summary import observations_of
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog, read_records
from goalrunner.records.files import LogInUse, WriterLock, write_whole
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder

MOST_ITEMS = 50
MOST_CHARACTERS = 8_000  # of all facts that are recalled
_LONGEST_FACT = 2_000  # characters of a remembered fact
_LONGEST = 500  # characters of a recalled fact
_LONGEST_NAME = 100
Sensitivity = Literal["low", "medium", "high"]


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
    from goalrunner.app.previous_run import frozen_table  # not at the top: listing facts needs no goal

    table = frozen_table(folder)
    owner, allowed = str(table.get("owner", "")), table.get("memory", {}).get("promote", ())
    reference, source = _source(folder, request.item)
    text = request.text.strip()
    if not text and source is not None and source.output is not None:
        text = ArtifactStore(folder.artifacts, Redactor({})).read(source.output).decode(errors="replace").strip()
    text, now = redactor.text(text), clock.now()
    _refuse(request, text, source, allowed, owner)
    item = MemoryItem(
        memory_id=f"m{secrets.token_hex(4)}",
        kind=request.kind,
        text=text,
        run_id=folder.run_id,
        source_ref=reference,
        owner=owner,
        permission=redactor.text(request.permission.strip()) or f'[memory] promote = ["{request.kind}"] of the goal',
        sensitivity=request.sensitivity,
        expires_at=None if request.expires is None else (now + timedelta(seconds=request.expires)).isoformat(),
        promoted_by=request.by,
        promoted_at=now.isoformat(),
        replaces=request.replaces,
    )
    file = MemoryFile.of(home, owner)
    with EventLog(folder.events, clock, redactor) as log, file.writing():
        others = [other for other in file.read()[0] if other.memory_id != item.replaces]
        if item.replaces and len(others) == len(file.read()[0]):
            raise UsageError(f'there is no item "{item.replaces}" of owner "{owner}" to correct', "goal memory")
        for other in others:
            if (other.kind, other.text, other.run_id, other.source_ref) == (item.kind, text, item.run_id, reference):
                hint = f"to change it: --replaces {other.memory_id}"
                raise UsageError(f"{other.memory_id} has the same text and source", hint)
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
    if not 0 < len(text) <= _LONGEST_FACT:
        raise UsageError(f"a fact has 1 to {_LONGEST_FACT:,} characters, and this text has {len(text)}", '--text "..."')
    needed = {'--permission "..."': request.sensitivity != "low" and not request.permission.strip()}
    needed["--expires 30d"] = request.sensitivity == "high" and request.expires is None
    for option in (option for option, lacks in needed.items() if lacks):
        raise UsageError(f"a fact of {request.sensitivity} sensitivity needs {option.split()[0]}", option)


def _source(folder: RunFolder, item: str) -> tuple[str, Observation | None]:
    """Return the reference of an observation ("o7") or event ("e12", "12"), and the observation. Raise UsageError for none.

    The output of a hidden validator is refused, because the agent of a later run would read it.
    """
    wanted = item.strip().lower()
    for record in read_records(folder.events):
        if wanted in (f"e{record.seq}", str(record.seq)):
            return f"e{record.seq}", None
        event = record.event
        found = next((one for one in observations_of(event) if one.id == wanted), None)
        if found is None:
            continue
        if isinstance(event, events.ValidatorsFinished | events.BaselineTaken) and found in event.concealed:
            what = f"{found.id} is from a hidden validator, whose output agents do not get"
            raise UsageError(what, "name another observation")
        return found.id, found
    raise UsageError(
        f'run {folder.run_id} has no observation or event "{item[:40]}"',
        f"name an observation (o7) or an event (e12) of it: goal show {folder.run_id} --evidence",
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
