"""Offline verification of a run: its records are as they were written, and its verdicts hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from goalrunner.app.previous_run import file_hash, frozen_table
from goalrunner.app.run_snapshots import KeptStore
from goalrunner.core import events
from goalrunner.core.errors import RecordError, WorkspaceError
from goalrunner.core.events import Record
from goalrunner.core.fold import apply
from goalrunner.core.observation import EvidenceRow, Observation, Snapshot
from goalrunner.core.outcome import GoalStatus
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import EvidenceIndex, observations_of, outcome_of, summary_of
from goalrunner.engine.checks import audit_request
from goalrunner.engine.snapshot_tracker import why_stale
from goalrunner.judge.citations import check
from goalrunner.judge.verdict_schema import JudgeOutcome
from goalrunner.records.artifacts import ArtifactStore, read_message
from goalrunner.records.event_log import LogDamage, TornTail, read_lines
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder


class CitationReview:
    """Folds a run's records in order, and checks the citations of each verdict again.

    `checked` counts the citations; `unchecked` those whose freshness is unknown, because snapshots are missing (`gone`).
    """

    def __init__(self, folder: RunFolder, outputs: Sequence[str], home: Path, environ: Mapping[str, str]) -> None:
        self.state: RunState | None = None
        self.evidence = EvidenceIndex()
        self.checked = self.unchecked = 0
        self.gone = ""
        self._transcript = folder.transcript
        self.artifacts = ArtifactStore(folder.artifacts, Redactor({}))  # only read
        self._outputs, self._home, self._environ = tuple(outputs), home, environ
        self._store: KeptStore | None = None

    async def add(self, record: Record) -> None:
        """Add a record. Raise RecordError if it does not follow the others, or is a verdict that does not hold."""
        match record.event:
            case events.RunStarted(workspace=workspace):
                try:
                    self._store = KeptStore(Path(workspace), self._home, self._environ, self._outputs)
                except WorkspaceError as error:
                    self.gone = error.message
            case events.VerdictRecorded(verdict=verdict) if verdict.source == "judge" and self.state is not None:
                await self._check(record.event, self.state)
            case _:
                pass
        self.state = apply(self.state, record)
        self.evidence.add(record)

    async def _check(self, event: events.VerdictRecorded, state: RunState) -> None:
        verdict = event.verdict
        stale = dict(event.stale)
        for identifier in verdict.cited:
            item = self.evidence.observations.get(identifier)
            if item is not None and identifier not in stale and (reason := await self._stale(item, state.snapshot)):
                stale[identifier] = reason
        trail = self.evidence.trail(self.artifacts.read, partial(read_message, self._transcript))
        request = audit_request(state, event.round, trail, stale)
        outcome = JudgeOutcome(criteria=[], score=verdict.score, complete=verdict.complete, missing=verdict.missing)
        again = check(outcome, verdict.criteria, request)
        self.checked += again.citations_checked
        for old, new in zip(verdict.criteria, again.verdict.criteria, strict=True):
            if old.satisfied and not new.satisfied:
                raise RecordError(f'the verdict of round {event.round} on "{old.criterion}": {new.missing}')
        if verdict.complete and not again.verdict.complete:
            raise RecordError(f"the verdict of round {event.round} is complete without proof: {again.verdict.missing}")

    async def _stale(self, item: Observation, final: Snapshot | None) -> str:
        """Return why an observation was outdated at `final`; empty if it was not, or if that is no longer known."""
        try:
            return await why_stale(item, self.evidence.history, final, self._changes) if final is not None else ""
        except WorkspaceError as error:
            self.gone = self.gone or error.message
            self.unchecked += 1
            return ""

    async def _changes(self, old: Snapshot | None, new: Snapshot | None) -> tuple[str, ...]:
        if old is None or new is None or old.id == new.id:
            return ()
        if self._store is None:
            raise WorkspaceError(self.gone)
        await self._store.require(old, new)
        return tuple(sorted(change.path for change in await self._store.store.changes(old, new)))


_FIRST = ("status", "iterations", "verdict")  # required in an outcome, and compared first


@dataclass(frozen=True)
class Broken:
    """The first damage: the file, the byte where it begins (None: the file as a whole), and what is wrong."""

    file: str
    byte: int | None
    what: str


@dataclass
class Verification:
    """The number of checked records, and the first damage; None if there is none."""

    run_id: str
    path: str
    events: int = 0
    messages: int = 0
    artifacts: int = 0
    citations: int = 0
    notes: list[str] = field(default_factory=list)  # what could not be checked, or is unusual and no damage
    broken: Broken | None = None


class _Damage(Exception):
    """Raised with the file, the byte where the damage begins, and what is wrong."""


async def verify(folder: RunFolder, home: Path, environ: Mapping[str, str]) -> Verification:
    """Check a run's folder up to the first damage. `home` is where snapshots are kept."""
    done = Verification(folder.run_id, str(folder.path))
    try:
        try:
            outputs = frozen_table(folder).get("workspace", {}).get("outputs", ())
        except RecordError as error:
            raise _Damage(folder.goal_file, None, error.message) from error
        review = CitationReview(folder, outputs, home, environ)
        state = await _check_log(folder, review, done)
        _check_outcome(folder, state, review.evidence.rows(state), done)
    except _Damage as damage:
        file, *what = damage.args
        done.broken = Broken(str(file), *what)
    except LogDamage as damage:
        done.broken = Broken(str(damage.path), damage.offset, damage.message.removeprefix(f"{damage.path}: "))
    except RecordError as error:
        done.broken = Broken(str(folder.path), None, error.message)
    return done


async def _check_log(folder: RunFolder, review: CitationReview, done: Verification) -> RunState:
    """Check schema, sequence and chain, what the events refer to, the verdicts, and that the events fold."""
    torn: list[TornTail] = []
    seen: set[str] = set()
    kept: dict[str, str] = {}
    # A record has the hash of the one before it, so a record is used only once the next one was read.
    for found, _ in pairwise(chain(read_lines(folder.events, torn.append), (None,))):
        assert found is not None
        record, place = found[0], found[1].start
        done.events += 1
        try:
            await review.add(record)
        except RecordError as error:
            raise _Damage(folder.events, place, error.message) from error
        _check_references(folder, review.artifacts, record, seen, done)
        if isinstance(record.event, events.StartKept):
            kept = dict(record.event.files)  # a resumed run may record the start anew
    for name, sha256 in kept.items():
        _check_hash(folder.start / name, sha256, "the recorded start of the run")
    done.citations = review.checked
    for tail in torn:
        if folder.outcome.exists() or review.state is None:
            raise _Damage(folder.events, tail.offset, f"the last {tail.length} bytes are an incomplete record")
        done.notes.append(f"{folder.events}: the last {tail.length} bytes are an incomplete record and are ignored")
    if review.state is None:
        raise _Damage(folder.events, None, "it contains no event")
    if review.unchecked:
        what = f"{review.unchecked} cited observations were" if review.unchecked > 1 else "a cited observation was"
        done.notes.append(f"whether {what} fresh cannot be checked again: {review.gone}")
    return review.state


def _check_references(
    folder: RunFolder, artifacts: ArtifactStore, record: Record, seen: set[str], done: Verification
) -> None:
    """Check the files that an event names by their hashes; `seen` are the artifacts that were checked."""
    match record.event:
        case events.RunStarted(goal_sha256=sha256):
            _check_hash(folder.goal_file, sha256, "the goal of the run")
        case events.MessageRecorded(text=ref):
            try:
                read_message(folder.transcript, ref)
            except RecordError as error:
                what = f"the message of event {record.seq} is missing, or differs from what was recorded"
                raise _Damage(folder.transcript, ref.offset, what) from error
            done.messages += 1
        case _:
            pass
    for item in observations_of(record.event):
        if item.output and item.output.sha256 not in seen:
            what = f"the output of {item.id} of event {record.seq}"
            _check_hash(artifacts.path(item.output), item.output.sha256, what)
            seen.add(item.output.sha256)
            done.artifacts += 1


def _check_hash(path: Path, sha256: str, what: str) -> None:
    try:
        digest = file_hash(path)
    except RecordError as error:
        raise _Damage(path, None, f"{what}: {error.message}") from error
    if digest != sha256:
        raise _Damage(path, None, f"{what} differs from what was recorded")


def _check_outcome(folder: RunFolder, state: RunState, rows: Sequence[EvidenceRow], done: Verification) -> None:
    """Compare outcome.json and summary.json with the state that the log folds to. The run's folder may have been moved."""
    if state.status is GoalStatus.RUNNING and not folder.outcome.exists():
        done.notes.append("the run has not ended; only what is recorded so far was checked")
        return
    outcome = {**outcome_of(state).model_dump(mode="json"), "evidence": [row.model_dump(mode="json") for row in rows]}
    del outcome["run_path"], outcome["schema_version"]
    written = _table(folder.outcome)
    if not written.get("evidence"):
        del outcome["evidence"]
    summary = json.loads(json.dumps(summary_of(state)))
    _compare(folder.outcome, outcome, written)
    _compare(folder.summary, summary, _table(folder.summary))


def _compare(path: Path, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Compare the fields that both tables have, the most important ones first."""
    for key in sorted(ours, key=lambda key: key not in _FIRST):
        if key not in theirs and key in _FIRST:
            raise _Damage(path, None, f"it has no {key}")
        if key in theirs and theirs[key] != ours[key]:
            if isinstance(ours[key], dict | list):
                raise _Damage(path, None, f"{key} differs from the log")
            mine, other = (json.dumps(value, ensure_ascii=False)[:80] for value in (ours[key], theirs[key]))
            raise _Damage(path, None, f"{key} is {other}, but {mine} in the log")


def _table(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise _Damage(path, None, f"it cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _Damage(path, None, "it is not JSON") from error
    if not isinstance(value, dict):
        raise _Damage(path, None, "it is not a JSON object")
    return value
