"""The citations of the recorded verdicts, checked once more by the very check that they had to pass. Asks no model."""

from __future__ import annotations

from collections.abc import Mapping

from goalrunner import events
from goalrunner.artifacts import ArtifactStore
from goalrunner.errors import RecordError
from goalrunner.eventlog import read_message
from goalrunner.events import Record
from goalrunner.judge.citations import check
from goalrunner.judge.outcome import JudgeOutcome
from goalrunner.model.dialogue import text_of
from goalrunner.model.observation import Claim, Observation, Trail
from goalrunner.model.snapshot import Snapshot
from goalrunner.model.verdict import GoalVerdict
from goalrunner.ports import AuditRequest
from goalrunner.redaction import Redactor
from goalrunner.review.freshness import Freshness
from goalrunner.runs import RunFolder
from goalrunner.state import RunState, apply
from goalrunner.state.evidence import EvidenceIndex, cited_in
from goalrunner.state.trail import TrailIndex


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
