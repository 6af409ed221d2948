"""Promoting a fact of a run, so that later runs of its owner recall it."""

from __future__ import annotations

import secrets
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from goalrunner.app.memory import (
    MemoryItem,
    Sensitivity,
    items_file,
    list_items,
    locked_items,
)
from goalrunner.core import events
from goalrunner.core.errors import UsageError
from goalrunner.core.events import Event, MemoryKind, MemoryPromoted
from goalrunner.core.observation import Observation
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import EventLog, SystemClock, read_records
from goalrunner.records.files import AppendFile
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder

_LONGEST_FACT = 2_000  # characters


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """What a person wants to be remembered of a run."""

    item: str
    """The observation ("o7") or event ("e12") on which the fact rests."""
    kind: MemoryKind
    by: str
    """The person: user@host."""
    text: str = ""
    """Empty: the output of the observation is the fact."""
    expires: float | None = None
    """Seconds from now; None: never."""
    sensitivity: Sensitivity = "low"
    permission: str = ""
    """Who or what allowed it to be remembered, if not the goal."""
    replaces: str = ""
    """The id of the item that this one corrects."""


def promote_fact(
    folder: RunFolder,
    home: Path,
    promotion: Promotion,
    clock: SystemClock,
    redactor: Redactor,
) -> MemoryItem:
    """Store one fact of a run under `home`, and return it.

    Raise UsageError if the goal does not allow it, and RecordError if a process drives
    the run, its records are damaged, or nothing can be written.
    """
    kind = promotion.kind
    owner = _owner_allowing(folder, kind)
    _refuse_sensitive(promotion)
    reference = promotion.item.strip().lower()
    text = _fact_text(folder, reference, promotion.text.strip())
    now = clock.now()
    expires_at = None
    if promotion.expires is not None:
        expires_at = (now + timedelta(seconds=promotion.expires)).isoformat()
    permission = redactor.text(promotion.permission.strip())
    fact = MemoryItem(
        memory_id=f"m{secrets.token_hex(4)}",
        kind=kind,
        # The file is read by later runs, whose secrets may be others.
        text=redactor.text(text),
        run_id=folder.run_id,
        source_ref=reference,
        owner=owner,
        permission=permission or f'[memory] promote = ["{kind}"] of the goal',
        sensitivity=promotion.sensitivity,
        expires_at=expires_at,
        promoted_by=promotion.by,
        promoted_at=now.isoformat(),
        replaces=promotion.replaces,
    )
    with EventLog(folder.events, clock, redactor) as log, locked_items(home):
        if promotion.replaces:
            # The file is locked, so the item cannot be corrected by another process
            # meanwhile.
            _refuse_unknown(home, owner, promotion.replaces)
        # The event comes first: a fact without one could not be traced to its run.
        log.append(
            MemoryPromoted(memory_id=fact.memory_id, kind=kind, source_ref=reference)
        )
        with closing(AppendFile(items_file(home))) as file:
            file.append(fact.model_dump_json().encode())
    return fact


def _refuse_sensitive(promotion: Promotion) -> None:
    """Raise UsageError if a sensitive fact lacks a permission or an end."""
    sensitivity = promotion.sensitivity
    if sensitivity != "low" and not promotion.permission.strip():
        raise UsageError(
            f"a fact of {sensitivity} sensitivity needs --permission",
            '--permission "..."',
        )
    if sensitivity == "high" and promotion.expires is None:
        raise UsageError("a fact of high sensitivity needs --expires", "--expires 30d")


def _fact_text(folder: RunFolder, reference: str, text: str) -> str:
    """Return the text of a fact, by default what it rests on. Raise UsageError."""
    text = _source(folder, reference, text)
    if not 0 < len(text) <= _LONGEST_FACT:
        raise UsageError(
            f"a fact has 1 to {_LONGEST_FACT:,} characters, and this text has "
            f"{len(text)}",
            '--text "..."',
        )
    return text


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


def _source(folder: RunFolder, reference: str, text: str) -> str:
    """Return `text`, or else the output of the observation that is referred to.

    Raise UsageError for a reference that a fact cannot rest on.
    """
    for record in read_records(folder.events):
        if reference == f"e{record.seq}":
            # An event has no text of its own.
            return text
        for observation in events.observations_of(record.event):
            if observation.id == reference:
                _refuse_unfit(record.event, observation)
                return text or _output_of(folder, observation)
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
