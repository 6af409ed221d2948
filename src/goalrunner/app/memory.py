"""Facts of runs that are kept for later runs of an owner: their file, promoting a fact,
and recalling them.
"""

from __future__ import annotations

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from goalrunner.core import events
from goalrunner.core.errors import RecordError, UsageError, one_line, record_errors
from goalrunner.core.events import MemoryKind, MemoryPromoted
from goalrunner.core.field_types import Frozen, first_problem
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog, SystemClock, read_records
from goalrunner.records.files import AppendFile, write_whole
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder

MOST_ITEMS = 50
MOST_CHARACTERS = 8_000  # of all facts that are recalled
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
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _read(home: Path) -> tuple[list[MemoryItem], list[str], list[bytes]]:
    """Return the items, corrected or not, oldest first, a message for each damaged
    line, and the lines.

    Raise RecordError.
    """
    path, items, damages = _file(home), [], []
    with record_errors(f"{path} cannot be read", "check its permissions"):
        lines = path.read_bytes().splitlines() if path.exists() else []
    for number, raw in enumerate(lines, start=1):
        try:
            items.append(MemoryItem.model_validate_json(raw))
        except ValidationError as error:
            damages.append(
                f"{path}:{number}: {first_problem(error)}; the line is ignored"
            )
    return items, damages, lines


def list_items(
    home: Path, owner: str | None = None
) -> tuple[list[MemoryItem], list[str]]:
    """Return the valid items of one owner or of all, and a message for each damaged
    line.

    Raise RecordError.
    """
    items, damages, _ = _read(home)
    corrected = {item.replaces for item in items}
    return [
        one
        for one in items
        if owner in (None, one.owner) and one.memory_id not in corrected
    ], damages


def forget_fact(home: Path, memory_id: str) -> list[MemoryItem]:
    """Remove an item, and every item that it corrected; return them.

    Raise UsageError for an unknown id, and RecordError.
    """
    with _locked(home):
        items, _, lines = _read(home)
        by_id = {item.memory_id: item for item in items}
        gone: list[MemoryItem] = []
        while item := by_id.pop(gone[-1].replaces if gone else memory_id, None):
            gone.append(item)
        if not gone:
            raise UsageError(
                f'there is no kept fact with the id "{memory_id[:40]}"',
                "goal memory lists all items",
            )
        marks = [f'"memory_id":"{item.memory_id}"'.encode() for item in gone]
        kept = [line for line in lines if not any(mark in line for mark in marks)]
        write_whole(_file(home), b"".join(line + b"\n" for line in kept))
        return gone


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
    """Keep one fact of a run under `home`, which rests on the observation ("o7") or
    event ("e12") `item`, and return it.

    Without a `text`, the observation's own output is kept; `expires` is in seconds.
    Raise UsageError if the goal does not allow it, and RecordError if a process drives
    the run, its records are damaged, or nothing can be written.
    """
    # Not at the top: listing facts needs no goal.
    from goalrunner.app.stored_goal import frozen_table

    table = frozen_table(folder)
    owner = str(table.get("owner", ""))
    fresh = "and start a new run: the goal of a run is fixed"
    if kind not in table.get("memory", {}).get("promote", ()):
        hint = f'write [memory] promote = ["{kind}"] in the goal file, {fresh}'
        raise UsageError(
            f"the goal of this run does not allow promoting the kind {kind}", hint
        )
    if not owner.strip():
        raise UsageError(
            "the goal of this run names no owner",
            f'write owner = "..." in the goal file, {fresh}',
        )
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
    kept = MemoryItem(
        memory_id=f"m{secrets.token_hex(4)}",
        kind=kind,
        text=redactor.text(text),
        run_id=folder.run_id,
        source_ref=reference,
        owner=owner,
        permission=redactor.text(permission.strip())
        or f'[memory] promote = ["{kind}"] of the goal',
        sensitivity=sensitivity,
        expires_at=None
        if expires is None
        else (now + timedelta(seconds=expires)).isoformat(),
        promoted_by=by,
        promoted_at=now.isoformat(),
        replaces=replaces,
    )
    with EventLog(folder.events, clock, redactor) as log, _locked(home):
        if replaces and replaces not in (
            other.memory_id for other in list_items(home, owner)[0]
        ):
            raise UsageError(
                f'there is no item "{replaces}" of owner "{owner}" to correct',
                "goal memory",
            )
        log.append(
            MemoryPromoted(memory_id=kept.memory_id, kind=kind, source_ref=reference)
        )
        with closing(AppendFile(_file(home))) as file:
            file.append(kept.model_dump_json().encode())
    return kept


def _source(folder: RunFolder, wanted: str, text: str) -> tuple[str, str]:
    """Return the reference of the observation ("o7") or event ("e12"), and the text to
    keep.

    Raise UsageError.

    The output of a hidden validator is refused, because the agent of a later run would
    read it.
    """
    for record in read_records(folder.events):
        event = record.event
        if wanted == f"e{record.seq}":
            return wanted, text
        found = next(
            (one for one in events.observations_of(event) if one.id == wanted), None
        )
        if found is None:
            continue
        if (
            isinstance(event, events.ValidatorsFinished | events.BaselineTaken)
            and found in event.concealed
        ):
            what = (
                f"{wanted} is from a hidden validator, whose output agents do not get"
            )
            raise UsageError(what, "name another observation")
        if not found.shows:
            what = (
                f"{wanted} ({found.source}) is not evidence: it contains the agent's "
                "words, or a call that did not run"
            )
            raise UsageError(
                what, "name an observation that shows it: goal show RUN --evidence"
            )
        if not text and found.output is not None:
            text = (
                ArtifactStore(folder.artifacts, Redactor({}))
                .read(found.output)
                .decode(errors="replace")
                .strip()
            )
        return wanted, text
    raise UsageError(
        f'run {folder.run_id} has no observation or event "{wanted[:40]}"',
        f"name an observation (o7) or an event (e12) of it: goal show {folder.run_id} "
        "--evidence",
    )


def recall(
    home: Path, owner: str, now: datetime
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the facts of an owner that have not expired, one line each, newest last;
    and notes for people.

    Never raise: damage of the file is a note.
    """
    if not owner.strip():
        return (), ("[memory] recall has no effect: the goal names no owner",)
    try:
        items, damages = list_items(home, owner)
    except RecordError as error:
        return (), (f"memory: {error.message}; nothing is recalled",)
    valid = [item for item in items if not item.is_expired(now)]
    lines: list[str] = []
    for item in reversed(valid[-MOST_ITEMS:]):
        kind, text = item.kind.replace("_", " "), one_line(item.text, _LONGEST)
        line = (
            f"({kind}, {item.memory_id}, {item.source_ref} of run {item.run_id}) {text}"
        )
        if sum(map(len, [*lines, line])) > MOST_CHARACTERS:
            break
        lines.insert(0, line)
    notes = [f"memory: {damage}" for damage in damages]
    if lines:
        more = f", the newest of {len(valid)}" if len(lines) < len(valid) else ""
        notes.append(
            f'the agent reads {len(lines)} remembered facts of owner "{owner}"{more} '
            "(goal memory)"
        )
    return tuple(lines), tuple(notes)
