"""Checking the citations of recorded verdicts again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from goalrunner.app.run_snapshots import KeptStore
from goalrunner.core import events
from goalrunner.core.base import Snapshot
from goalrunner.core.check_ports import AuditRequest
from goalrunner.core.errors import WorkspaceError
from goalrunner.core.events import Record
from goalrunner.core.fold import apply
from goalrunner.core.observation import Observation
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import EvidenceIndex, cited_in
from goalrunner.engine.snapshot_tracker import ChangedPaths, changed_paths, why_stale
from goalrunner.judge.citations import check
from goalrunner.judge.verdict_schema import JudgeOutcome
from goalrunner.records.artifacts import ArtifactStore, read_message
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder


class CitationReview:
    """Folds a run's records in order, and checks the citations of each verdict by the check that it passed.

    `checked` counts the citations; `unchecked` those whose freshness is not known, because the snapshots are `gone`.
    """

    def __init__(self, folder: RunFolder, outputs: Sequence[str], home: Path, environ: Mapping[str, str]) -> None:
        """Prepare a review. `outputs` are patterns of files that checks may write; `home` is the folder of snapshots."""
        self.state: RunState | None = None
        self.evidence = EvidenceIndex()
        self.checked = self.unchecked = 0
        self.gone = ""
        self._transcript = folder.transcript
        # Nothing is written through it, so there is nothing to replace.
        self.artifacts = ArtifactStore(folder.artifacts, Redactor({}))
        self._outputs, self._home, self._environ = tuple(outputs), home, environ
        self._store: KeptStore | None = None
        self._taken: dict[str, Snapshot] = {}
        self._ends: dict[int, str] = {}
        self._changed: dict[tuple[str, str], ChangedPaths] = {}

    async def add(self, record: Record) -> str:
        """Add a record. Return why its verdict does not hold; empty if it does or is none. Raise RecordError."""
        refused = ""
        match record.event:
            case events.RunStarted(workspace=workspace):
                try:
                    self._store = KeptStore(Path(workspace), self._home, self._environ, self._outputs)
                except WorkspaceError as error:
                    self.gone = error.message
            case events.SnapshotTaken(snapshot=snapshot):
                self._taken[snapshot.id] = snapshot
            case events.RoundFinished(round=number, snapshot=Snapshot() as snapshot):
                self._taken[snapshot.id] = snapshot
                self._ends[number] = snapshot.id
            case events.VerdictRecorded(verdict=verdict) if verdict.source == "judge" and self.state is not None:
                refused = await self._check(record.event, self.state)
            case _:
                pass
        self.state = apply(self.state, record)
        self.evidence.add(record)
        return refused

    async def _check(self, event: events.VerdictRecorded, state: RunState) -> str:
        verdict = event.verdict
        stale = dict(event.stale)
        for identifier in cited_in(verdict):
            item = self.evidence.observations.get(identifier)
            if item is not None and identifier not in stale and (reason := await self._stale(item, state.snapshot)):
                stale[identifier] = reason
        request = AuditRequest(
            objective=state.goal.description,
            success_criteria=state.criteria,
            constraints=state.goal.constraints,
            deliverable=state.plan.deliverable,
            round=event.round,
            trail=self.evidence.trail(self.artifacts.read, partial(read_message, self._transcript)),
            minimum_score=state.plan.minimum_score,
            require=state.plan.require,
            stale=stale,
        )
        outcome = JudgeOutcome(criteria=[], score=verdict.score, complete=verdict.complete, missing=verdict.missing)
        again = check(outcome, verdict.criteria, request, minimum_score=state.plan.minimum_score)
        self.checked += again.citations_checked
        for old, new in zip(verdict.criteria, again.verdict.criteria, strict=True):
            if old.satisfied and not new.satisfied:
                return f'the verdict of round {event.round} on "{old.criterion}": {new.missing}'
        if verdict.complete and not again.verdict.complete:
            return f"the verdict of round {event.round} is complete without proof: {again.verdict.missing}"
        return ""

    async def _stale(self, item: Observation, final: Snapshot | None) -> str:
        """Return why an observation was outdated at `final`; empty if it was not, or if that is no longer known."""
        if final is None:
            return ""
        try:
            return await why_stale(item, self._taken, self._ends, final, self._changes)
        except WorkspaceError as error:
            self.gone = self.gone or error.message
            self.unchecked += 1
            return ""

    async def _changes(self, old: Snapshot | None, new: Snapshot | None) -> ChangedPaths:
        if old is None or new is None or old.id == new.id:
            return changed_paths(())
        if self._store is None:
            raise WorkspaceError(self.gone)
        key = (old.id, new.id)
        if key not in self._changed:
            await self._store.require(old, new)
            self._changed[key] = changed_paths([change.path for change in await self._store.store.changes(old, new)])
        return self._changed[key]
