"""Checking the citations of recorded verdicts once more."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from goalrunner.app.run_snapshots import KeptStore
from goalrunner.core import events
from goalrunner.core.base import Snapshot
from goalrunner.core.change_history import ChangedPaths, changed_paths
from goalrunner.core.check_ports import AuditRequest
from goalrunner.core.errors import RecordError, WorkspaceError
from goalrunner.core.events import Record
from goalrunner.core.evidence import EvidenceIndex, TrailIndex, cited_in
from goalrunner.core.fold import apply
from goalrunner.core.messages import text_of
from goalrunner.core.observation import Claim, Observation, Trail
from goalrunner.core.round_state import why_stale
from goalrunner.core.run_state import RunState
from goalrunner.core.verdict import GoalVerdict
from goalrunner.judge.citations import check
from goalrunner.judge.verdict_schema import JudgeOutcome
from goalrunner.records.artifacts import ArtifactStore, read_message
from goalrunner.records.redaction import Redactor
from goalrunner.records.run_folder import RunFolder


class Freshness:
    """The snapshots of one run. Where they are gone nothing can be said, and `gone` says why."""

    def __init__(self, outputs: Sequence[str], home: Path, environ: Mapping[str, str]) -> None:
        """`outputs` are the patterns of what checks may write."""
        self.gone = ""
        self.unchecked = 0
        self._outputs = tuple(outputs)
        self._home = home
        self._environ = environ
        self._kept: KeptStore | None = None
        self._taken: dict[str, Snapshot] = {}
        self._ends: dict[int, str] = {}
        self._changed: dict[tuple[str, str], ChangedPaths] = {}

    def open(self, workspace: str) -> None:
        """The workspace of the run."""
        try:
            self._kept = KeptStore(Path(workspace), self._home, self._environ, self._outputs)
        except WorkspaceError as error:
            self.gone = error.message

    def add(self, snapshot: Snapshot) -> None:
        """A snapshot that the log names."""
        self._taken[snapshot.id] = snapshot

    def end_round(self, number: int, snapshot: Snapshot) -> None:
        """The snapshot at the end of a round."""
        self.add(snapshot)
        self._ends[number] = snapshot.id

    async def stale(self, item: Observation, final: Snapshot | None) -> str:
        """Why an observation did not count at `final`; empty where it did, or where it cannot be known any more."""
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
        if self._kept is None:
            raise WorkspaceError(self.gone)
        key = (old.id, new.id)
        if key not in self._changed:
            await self._kept.require(old, new)
            paths = [change.path for change in await self._kept.store.changes(old, new)]
            self._changed[key] = changed_paths(paths)
        return self._changed[key]


def goal_outputs(goal_file: Path) -> list[str]:
    """The patterns of what checks may write, as the run had them. Raises RecordError."""
    try:
        table = tomllib.loads(goal_file.read_text(encoding="utf-8")).get("workspace", {})
        return [str(pattern) for pattern in table.get("outputs", [])]
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise RecordError(f"the goal of the run cannot be read: {error}") from error


class CitationReview:
    """Goes through a run's records in order; `checked` counts the citations."""

    def __init__(self, folder: RunFolder, freshness: Freshness) -> None:
        self.checked = 0
        self.freshness = freshness
        self.evidence = EvidenceIndex()
        self.state: RunState | None = None
        self._trail = TrailIndex()
        self._transcript = folder.transcript
        # Nothing is written through it, so there is nothing to replace.
        self._artifacts = ArtifactStore(folder.artifacts, Redactor({}))

    async def add(self, record: Record) -> str:
        """Take in one record; gives why its verdict does not hold, empty when it does or is none. Raises RecordError."""
        said = ""
        match record.event:
            case events.RunStarted(workspace=workspace):
                self.freshness.open(workspace)
            case events.SnapshotTaken(snapshot=snapshot):
                self.freshness.add(snapshot)
            case events.RoundFinished(round=number, snapshot=Snapshot() as snapshot):
                self.freshness.end_round(number, snapshot)
            case events.VerdictRecorded(verdict=verdict) if verdict.source == "judge":
                said = await self._check(record.event)
            case _:
                pass
        self.state = apply(self.state, record)
        self._trail.add(record)
        self.evidence.add(record)
        return said

    async def _check(self, event: events.VerdictRecorded) -> str:
        if self.state is None:
            raise RecordError("the log begins with a verdict")
        verdict = event.verdict
        request = self._request(self.state, event.round, {**await self._stale(verdict), **event.stale})
        outcome = JudgeOutcome(criteria=[], score=verdict.score, complete=verdict.complete, missing=verdict.missing)
        again = check(outcome, verdict.criteria, request, minimum_score=self.state.plan.minimum_score)
        self.checked += again.citations_checked
        for old, new in zip(verdict.criteria, again.verdict.criteria, strict=True):
            if old.satisfied and not new.satisfied:
                return f'the verdict of round {event.round} on "{old.criterion}": {new.missing}'
        if verdict.complete and not again.verdict.complete:
            return f"the verdict of round {event.round} is complete without proof: {again.verdict.missing}"
        return ""

    async def _stale(self, verdict: GoalVerdict) -> dict[str, str]:
        """Asked of the snapshots: what satisfied criteria cite, and why it did not count."""
        final = self.state.snapshot if self.state else None
        reasons = {}
        for identifier in cited_in(verdict):
            item = self.evidence.observations.get(identifier)
            reason = await self.freshness.stale(item, final) if item else ""
            if reason:
                reasons[identifier] = reason
        return reasons

    def _request(self, state: RunState, number: int, stale: Mapping[str, str]) -> AuditRequest:
        return AuditRequest(
            objective=state.goal.description,
            success_criteria=state.criteria,
            constraints=state.goal.constraints,
            deliverable=state.plan.deliverable,
            round=number,
            trail=Trail(items=tuple(self._trail.items), read=self._read),
            minimum_score=state.plan.minimum_score,
            require=state.plan.require,
            stale=stale,
        )

    def _read(self, item: Observation | Claim) -> str:
        if isinstance(item, Observation):
            return self._artifacts.read(item.output).decode("utf-8", errors="replace") if item.output else ""
        return text_of(read_message(self._transcript, item.text).get("content")) if item.text else ""
