"""Facts of runs that later runs of an owner recall."""

from __future__ import annotations

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from goalrunner.core import events
from goalrunner.core.errors import RecordError, UsageError, one_line, record_errors
from goalrunner.core.events import Event, MemoryKind, MemoryPromoted
from goalrunner.core.field_types import Frozen, first_problem
from goalrunner.core.observation import Observation
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog, SystemClock, read_records
from goalrunner.records.files import AppendFile, write_whole
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder

# A run recalls the newest facts within these limits, so that the prompt stays small.
MOST_ITEMS = 50
MOST_CHARACTERS = 8_000
_LONGEST_FACT = 2_000  # characters of a remembered fact
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


def _file(home: Path) -> Path:
    """Return the file of all items."""
    return home / "memory" / "items.jsonl"


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Wait until no other process changes the file.

    Raise RecordError if it cannot be written.
    """
    folder = _file(home).parent
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
    path = _file(home)
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
    with _locked(home):
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
        write_whole(_file(home), text)
        return removed


def promote_fact(
    folder: RunFolder,
    home: Path,
    item: str,
    kind: MemoryKind,
    clock: SystemClock,
    redactor: Redactor,
    *,
    by: str,
    text: str = "",
    expires: float | None = None,
    sensitivity: Sensitivity = "low",
    permission: str = "",
    replaces: str = "",
) -> MemoryItem:
    """Store one fact of a run under `home`, and return it.

    It rests on the observation ("o7") or event ("e12") `item`. Without a `text`, the
    observation's own output is the fact; `expires` is in seconds. Raise UsageError if
    the goal does not allow it, and RecordError if a process drives the run, its records
    are damaged, or nothing can be written.
    """
    owner = _owner_allowing(folder, kind)
    if sensitivity != "low" and not permission.strip():
        raise UsageError(
            f"a fact of {sensitivity} sensitivity needs --permission",
            '--permission "..."',
        )
    if sensitivity == "high" and expires is None:
        raise UsageError("a fact of high sensitivity needs --expires", "--expires 30d")
    reference, text = _source(folder, item.strip().lower(), text.strip())
    if not 0 < len(text) <= _LONGEST_FACT:
        raise UsageError(
            f"a fact has 1 to {_LONGEST_FACT:,} characters, and this text has "
            f"{len(text)}",
            '--text "..."',
        )
    now = clock.now()
    expires_at = None
    if expires is not None:
        expires_at = (now + timedelta(seconds=expires)).isoformat()
    permission = redactor.text(permission.strip())
    fact = MemoryItem(
        memory_id=f"m{secrets.token_hex(4)}",
        kind=kind,
        # The file is read by later runs, whose secrets may be others.
        text=redactor.text(text),
        run_id=folder.run_id,
        source_ref=reference,
        owner=owner,
        permission=permission or f'[memory] promote = ["{kind}"] of the goal',
        sensitivity=sensitivity,
        expires_at=expires_at,
        promoted_by=by,
        promoted_at=now.isoformat(),
        replaces=replaces,
    )
    with EventLog(folder.events, clock, redactor) as log, _locked(home):
        # The file is locked, so the item cannot be corrected by another process
        # meanwhile.
        if replaces:
            _refuse_unknown(home, owner, replaces)
        # The event comes first: a fact without one could not be traced to its run.
        log.append(
            MemoryPromoted(memory_id=fact.memory_id, kind=kind, source_ref=reference)
        )
        with closing(AppendFile(_file(home))) as file:
            file.append(fact.model_dump_json().encode())
    return fact


def _owner_allowing(folder: RunFolder, kind: MemoryKind) -> str:
    """Return the owner of a run.

    Raise UsageError if its goal does not allow the kind.
    """
    # Not at the top: listing facts needs no goal.
    from goalrunner.app.stored_goal import frozen_table

    table = frozen_table(folder)
    new_run = "and start a new run: the goal of a run is fixed"
    if kind not in table.get("memory", {}).get("promote", ()):
        raise UsageError(
            f"the goal of this run does not allow promoting the kind {kind}",
            f'write [memory] promote = ["{kind}"] in the goal file, {new_run}',
        )
    owner = str(table.get("owner", ""))
    if not owner.strip():
        raise UsageError(
            "the goal of this run names no owner",
            f'write owner = "..." in the goal file, {new_run}',
        )
    return owner


def _refuse_unknown(home: Path, owner: str, memory_id: str) -> None:
    """Raise UsageError if the owner has no valid item of this id."""
    items, _ = list_items(home, owner)
    if memory_id not in [item.memory_id for item in items]:
        raise UsageError(
            f'there is no item "{memory_id}" of owner "{owner}" to correct',
            "goal memory",
        )


def _source(folder: RunFolder, reference: str, text: str) -> tuple[str, str]:
    """Return the reference of an observation ("o7") or event ("e12"), and the fact.

    Raise UsageError for a reference that a fact cannot rest on.
    """
    for record in read_records(folder.events):
        if reference == f"e{record.seq}":
            return reference, text
        for observation in events.observations_of(record.event):
            if observation.id == reference:
                _refuse_unfit(record.event, observation)
                return reference, text or _output_of(folder, observation)
    raise UsageError(
        f'run {folder.run_id} has no observation or event "{reference[:40]}"',
        f"name an observation (o7) or an event (e12) of it: goal show {folder.run_id} "
        "--evidence",
    )


def _refuse_unfit(event: Event, observation: Observation) -> None:
    """Raise UsageError for an observation that must not become a fact."""
    if (
        isinstance(event, events.ValidatorsFinished | events.BaselineTaken)
        and observation in event.concealed
    ):
        # The agent of a later run would read it.
        raise UsageError(
            f"{observation.id} is from a hidden validator, whose output agents do not "
            "get",
            "name another observation",
        )
    if not observation.shows:
        raise UsageError(
            f"{observation.id} ({observation.source}) is not evidence: it contains the "
            "agent's words, or a call that did not run",
            "name an observation that shows it: goal show RUN --evidence",
        )


def _output_of(folder: RunFolder, observation: Observation) -> str:
    if observation.output is None:
        return ""
    output = ArtifactStore(folder.artifacts, Redactor({})).read(observation.output)
    return output.decode(errors="replace").strip()


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
