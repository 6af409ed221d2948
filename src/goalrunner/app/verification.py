"""Verifying the records of a run, and the proof of its verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from goalrunner.app.previous_run import file_hash
from goalrunner.app.run_snapshots import KeptStore
from goalrunner.app.stored_goal import frozen_table
from goalrunner.core import events
from goalrunner.core.errors import RecordError, WorkspaceError
from goalrunner.core.events import Record
from goalrunner.core.evidence_index import EvidenceIndex
from goalrunner.core.fold import apply
from goalrunner.core.observation import Observation, Snapshot
from goalrunner.core.outcome import GoalStatus
from goalrunner.core.run_state import RunState
from goalrunner.core.run_summary import RunSummary
from goalrunner.core.state_outcome import outcome_of
from goalrunner.engine.checks import request_of_state
from goalrunner.engine.staleness import why_stale
from goalrunner.judge.verdict_check import check_verdict
from goalrunner.judge.verdict_parser import JudgeOutcome
from goalrunner.records.artifacts import ArtifactStore
from goalrunner.records.event_log import LogDamage, LogEnd, read_lines
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder
from goalrunner.records.transcript_file import read_message

_REQUIRED = ("status", "iterations", "verdict")  # keys of an outcome
_LONGEST = 80  # characters of a value


@dataclass(frozen=True)
class Broken:
    """The first damage: its file, its place and what is wrong.

    `byte` is where it begins; None: it is the file as a whole.
    """

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
    notes: list[str] = field(default_factory=list)
    """What could not be checked, or is unusual and no damage."""
    broken: Broken | None = None


class _Damage(Exception):
    """Raised with the fields of `Broken`."""


async def verify_run(
    folder: RunFolder, home: Path, environ: Mapping[str, str]
) -> Verification:
    """Check a run's folder up to the first damage.

    `home` is where snapshots are stored.
    """
    verifier = _Verifier(folder, home, environ)
    done = verifier.done
    try:
        state = await verifier.check_log()
        _check_outcome(folder, state, verifier.evidence, done.notes)
    except _Damage as damage:
        done.broken = Broken(*damage.args)
    except LogDamage as damage:
        what = damage.message.removeprefix(f"{damage.path}: ")
        done.broken = Broken(str(damage.path), damage.offset, what)
    except RecordError as error:
        done.broken = Broken(str(folder.path), None, error.message)
    return done


class _Verifier:
    """Folds a run's records in order, and checks what they refer to.

    That is the files that they name, and the citations of each verdict.
    """

    def __init__(
        self, folder: RunFolder, home: Path, environ: Mapping[str, str]
    ) -> None:
        self.done = Verification(folder.run_id, str(folder.path))
        self.evidence = EvidenceIndex()
        self._folder, self._home, self._environ = folder, home, environ
        self._artifacts = ArtifactStore(folder.artifacts, Redactor({}))  # only read
        self._checked_artifacts: set[str] = set()
        self._snapshots: KeptStore | None = None
        # For each citation whose freshness is not known: why.
        self._missing_snapshots: list[str] = []

    async def check_log(self) -> RunState:
        """Check the log, and the files and verdicts in it; return the state.

        That is the schema, the sequence and the chain of its events, what they refer
        to, and that they fold.
        """
        state, end = await self._check_records()
        folder = self._folder
        torn = folder.events.stat().st_size - end.size if folder.events.exists() else 0
        if torn:
            what = f"the last {torn} bytes are an incomplete record"
            # A process that was killed leaves no outcome.
            if folder.outcome.exists() or state is None:
                raise _Damage(str(folder.events), end.size, what)
            self.done.notes.append(f"{folder.events}: {what} and are ignored")
        if state is None:
            raise _Damage(str(folder.events), None, "it contains no event")
        for name, sha256 in state.kept.items():
            _check_hash(folder.start / name, sha256, "the recorded start of the run")
        self._note_unknown_freshness()
        return state

    async def _check_records(self) -> tuple[RunState | None, LogEnd]:
        """Check each record; return the state, and where the last record ends."""
        events_file = str(self._folder.events)
        state: RunState | None = None
        end = LogEnd()
        # A record has the hash of the one before it, so a record is used only once the
        # next one was read.
        for line, _ in pairwise(chain(read_lines(self._folder.events), (None,))):
            assert line is not None
            record, end = line
            self.done.events += 1
            try:
                if state is not None:
                    await self._check_verdict(record.event, state)
                state = apply(state, record)
            except RecordError as error:
                raise _Damage(events_file, end.start, error.message) from error
            self.evidence.add(record)
            self._check_files(record)
        return state, end

    def _note_unknown_freshness(self) -> None:
        unknown = len(self._missing_snapshots)
        if not unknown:
            return
        what = "a cited observation was"
        if unknown > 1:
            what = f"{unknown} cited observations were"
        self.done.notes.append(
            f"whether {what} fresh cannot be checked again: "
            f"{self._missing_snapshots[0]}"
        )

    def _check_files(self, record: Record) -> None:
        """Check the files that an event names by their hashes."""
        event, transcript = record.event, self._folder.transcript
        if isinstance(event, events.RunStarted):
            goal_file = self._folder.goal_file
            _check_hash(goal_file, event.goal_sha256, "the goal of the run")
        elif isinstance(event, events.MessageRecorded):
            try:
                read_message(transcript, event.text)
            except RecordError as error:
                what = (
                    f"the message of event {record.seq} is missing, or differs from "
                    "what "
                    "was recorded"
                )
                raise _Damage(str(transcript), event.text.offset, what) from error
            self.done.messages += 1
        for item in events.observations_of(event):
            # Two observations may share an output.
            if item.output and item.output.sha256 not in self._checked_artifacts:
                what = f"the output of {item.id} of event {record.seq}"
                _check_hash(self._artifacts.path(item.output), item.output.sha256, what)
                self._checked_artifacts.add(item.output.sha256)
                self.done.artifacts += 1

    async def _check_verdict(self, event: events.Event, state: RunState) -> None:
        """Check the citations of a judge's verdict again.

        Raise RecordError if it does not hold.
        """
        if not isinstance(event, events.VerdictRecorded):
            return
        verdict = event.verdict
        if verdict.source != "judge":
            # Other verdicts have no citations.
            return
        trail = self.evidence.trail(
            self._artifacts.read, partial(read_message, self._folder.transcript)
        )
        outcome = JudgeOutcome(
            criteria=list(verdict.criteria),
            score=verdict.score,
            complete=verdict.complete,
            missing=verdict.missing,
        )
        stale = await self._stale_citations(event, state)
        request = request_of_state(state, event.round, trail, stale)
        again = check_verdict(outcome, request).event
        self.done.citations += again.citations_checked
        for old, new in zip(verdict.criteria, again.verdict.criteria, strict=True):
            # A criterion that was not satisfied needs no citation.
            if old.satisfied and not new.satisfied:
                raise RecordError(
                    f'the verdict of round {event.round} on "{old.criterion}": '
                    f"{new.missing}"
                )
        if verdict.complete and not again.verdict.complete:
            raise RecordError(
                f"the verdict of round {event.round} is complete without proof: "
                f"{again.verdict.missing}"
            )

    async def _stale_citations(
        self, event: events.VerdictRecorded, state: RunState
    ) -> dict[str, str]:
        """Return why cited observations were outdated, by their ids."""
        # The reasons that were recorded count in any case.
        stale = dict(event.stale)
        for identifier in event.verdict.cited:
            item = self.evidence.observations.get(identifier)
            if item is None or identifier in stale:
                continue
            reason = await self._stale(item, state)
            if reason:
                stale[identifier] = reason
        return stale

    async def _stale(self, item: Observation, state: RunState) -> str:
        """Return why an observation was outdated at the verdict.

        Empty if it was not, or if that is no longer known.
        """
        if state.snapshot is None:
            return ""
        changes = partial(self._changes, state.workspace)
        try:
            return await why_stale(item, self.evidence.history, state.snapshot, changes)
        except WorkspaceError as error:
            # Pruning may have removed the snapshots, which is no damage.
            self._missing_snapshots.append(error.message)
            return ""

    async def _changes(
        self, workspace: str, old: Snapshot | None, new: Snapshot | None
    ) -> tuple[str, ...]:
        """Return the paths that differ between two snapshots.

        Raise WorkspaceError if they are gone.
        """
        if old is None or new is None or old.id == new.id:
            return ()
        if self._snapshots is None:
            outputs = frozen_table(self._folder).get("workspace", {}).get("outputs", ())
            self._snapshots = KeptStore(
                Path(workspace), self._home, self._environ, outputs
            )
        await self._snapshots.require(old, new)
        changes = await self._snapshots.store.changes(old, new)
        return tuple(sorted(change.path for change in changes))


def _check_hash(path: Path, sha256: str, what: str) -> None:
    try:
        digest = file_hash(path)
    except RecordError as error:
        raise _Damage(str(path), None, f"{what}: {error.message}") from error
    if digest != sha256:
        raise _Damage(str(path), None, f"{what} differs from what was recorded")


def _check_outcome(
    folder: RunFolder, state: RunState, evidence: EvidenceIndex, notes: list[str]
) -> None:
    """Compare outcome.json and summary.json with the state that the log folds to."""
    if state.status is GoalStatus.RUNNING and not folder.outcome.exists():
        notes.append("the run has not ended; only what is recorded so far was checked")
        return
    outcome = outcome_of(state, evidence=evidence.rows(state)).model_dump(mode="json")
    # The run's folder may have been moved.
    del outcome["run_path"], outcome["schema_version"]
    written = _table(folder.outcome)
    if not written.get("evidence"):
        del outcome["evidence"]
    _compare(folder.outcome, outcome, written)
    # As JSON has it: with lists in place of tuples, for example.
    summary = json.loads(json.dumps(RunSummary.of(state).values()))
    del summary["pid"], summary["path"]
    _compare(folder.summary, summary, _table(folder.summary))


def _compare(path: Path, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Raise _Damage if a field that both tables have differs."""
    for key, value in ours.items():
        if key not in theirs and key in _REQUIRED:
            raise _Damage(str(path), None, f"it has no {key}")
        other = theirs.get(key, value)
        if other == value:
            continue
        if isinstance(value, dict | list):
            raise _Damage(str(path), None, f"{key} differs from the log")
        in_file = json.dumps(other)[:_LONGEST]
        in_log = json.dumps(value)[:_LONGEST]
        what = f"{key} is {in_file}, but {in_log} in the log"
        raise _Damage(str(path), None, what)


def _table(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file. Raise _Damage if there is none."""
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise _Damage(
            str(path), None, f"it cannot be read: {error.strerror}"
        ) from error
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _Damage(str(path), None, "it is not a JSON object")
    return value
