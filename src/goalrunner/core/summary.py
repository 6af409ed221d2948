"""The evidence table, outcome and summary of a run, and the JSON Schemas of all
records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from goalrunner.core import events
from goalrunner.core.agent_ports import Message
from goalrunner.core.errors import UsageError, some
from goalrunner.core.events import Record
from goalrunner.core.fold import apply
from goalrunner.core.freshness import ChangeTimes
from goalrunner.core.goal import Goal
from goalrunner.core.labels import Label
from goalrunner.core.messages import text_of
from goalrunner.core.observation import (
    ArtifactRef,
    Claim,
    EvidenceRow,
    Observation,
    Snapshot,
    Trail,
    TranscriptRef,
    UserText,
)
from goalrunner.core.outcome import ApprovalFacts, ApprovalRow, GoalOutcome, GoalStatus
from goalrunner.core.run_state import Approval, RunState
from goalrunner.core.verdict import GoalVerdict, ValidatorResult
from goalrunner.core.waiting import resume_at

_EXIT = re.compile(r"exit (\d+)")


class SnapshotHistory:
    """The snapshots of a run: all that were taken, and those that each round found and
    left; round 0 is the start.
    """

    def __init__(self) -> None:
        self.taken: list[
            Snapshot
        ] = []  # oldest first; each differs from the one before
        self.places: dict[str, int] = {}  # by id: its newest place in that list
        self.starts: dict[int, Snapshot] = {}
        self.ends: dict[int, Snapshot] = {}
        self.began: dict[int, int] = {}
        """By round: when it began, in nanoseconds since 1970."""
        self.touched: dict[int, ChangeTimes | None] = {}
        """By round: when paths last changed in it; None: not known."""
        self.written: set[str] = set()
        """Files that validators have written so far."""

    def add(self, event: events.Event, at: str = "") -> None:
        """Process one event, which was recorded at a time (ISO 8601)."""
        match event:
            case events.SnapshotTaken(snapshot=snapshot, moment=moment):
                self.places[snapshot.id] = len(self.taken)
                self.taken.append(snapshot)
                if moment == "start":
                    self.ends.setdefault(0, snapshot)
            case events.RoundStarted(round=number) if self.taken:
                self.starts[number] = self.taken[-1]
                self.began[number] = (
                    int(datetime.fromisoformat(at).timestamp() * 1_000) * 1_000_000
                    if at
                    else 0
                )
            case events.RoundFinished(round=number, snapshot=Snapshot() as snapshot):
                self.ends[number] = snapshot
                self.touched[number] = event.touched
            case events.ValidatorsFinished(written=written, left=left):
                self.written.update(written, left)
            case events.BaselineTaken(written=written):
                self.written.update(written)
            case _:
                pass

    def find(self, identifier: str | None) -> Snapshot | None:
        """Return the snapshot of that id, if it was taken."""
        place = self.places.get(identifier or "")
        return None if place is None else self.taken[place]


class EvidenceIndex:
    """The observations and claims of a run, and which of them were outdated at the last
    verdict.
    """

    def __init__(self) -> None:
        self.items: list[Observation | Claim] = []
        """In order, without those of hidden validators."""
        self.observations: dict[str, Observation] = {}
        """All, by id."""
        self.stale: Mapping[str, str] = {}
        self.history = SnapshotHistory()
        self._round = 0
        self._said: list[UserText] = []

    def add(self, record: Record) -> None:
        """Process one record."""
        event = record.event
        self.history.add(event, record.at)
        self.observations.update(
            (item.id, item) for item in events.observations_of(event)
        )
        self.items.extend(events.shown_observations(event))
        match event:
            case events.RoundStarted(round=number):
                self._round = number
            case events.MessageRecorded(role="assistant", has_text=True):
                self.items.append(Claim(round=self._round, text=event.text))
            case events.UserSaid(text=text) | events.RunResumed(note=text) if (
                text.strip()
            ):
                self._said.append(UserText(self._round, text))
            case events.VerdictRecorded(stale=stale):
                self.stale = stale
            case _:
                pass

    def trail(
        self,
        output: Callable[[ArtifactRef], bytes],
        message: Callable[[TranscriptRef], Message],
    ) -> Trail:
        """Return the observations and claims so far, whose texts these functions
        read."""

        def read(item: Observation | Claim) -> str:
            if isinstance(item, Observation):
                return (
                    output(item.output).decode("utf-8", errors="replace")
                    if item.output
                    else ""
                )
            return text_of(message(item.text).get("content")) if item.text else ""

        return Trail(items=tuple(self.items), read=read, said=tuple(self._said))

    def rows(self, state: RunState) -> tuple[EvidenceRow, ...]:
        """Return the evidence table of a state's last verdict; empty without one."""
        return (
            self.table(state.verdict, state.validators)
            if state.verdict is not None
            else ()
        )

    def table(
        self, verdict: GoalVerdict, results: Sequence[ValidatorResult] = ()
    ) -> tuple[EvidenceRow, ...]:
        """Return a row for each citation of each criterion, then one for each
        validator's result.
        """
        rows = []
        for criterion in verdict.criteria:
            missing = "" if criterion.satisfied else criterion.missing
            row = EvidenceRow(
                criterion=criterion.criterion,
                satisfied=criterion.satisfied,
                missing=missing,
            )
            for citation in criterion.evidence:
                cited = {
                    "observation": citation.identifier,
                    "quote": citation.quote,
                    "fact": citation.fact,
                }
                stale = self.stale.get(citation.identifier, "")
                rows.append(
                    row.model_copy(
                        update={
                            **cited,
                            **self._seen(citation.identifier),
                            "stale": stale,
                        }
                    )
                )
            if not criterion.evidence:
                rows.append(row)
        for result in results:
            row = EvidenceRow(
                criterion=f"validator {result.name}",
                kind="validator",
                satisfied=result.passed,
                missing="" if result.passed else result.summary,
                observation=result.observation,
                command=result.command,
                exit_code=result.exit_code,
                fact=result.summary or None,
            )
            # The table is published, for example in a pull request.
            concealed = {"command": "", "facts": ()} if result.hidden else {}
            rows.append(
                row.model_copy(update={**self._seen(result.observation), **concealed})
            )
        return tuple(rows)

    def _seen(self, identifier: str) -> dict[str, object]:
        """Return the fields of an observation for a row; empty if it does not exist."""
        observation = self.observations.get(identifier)
        if observation is None:
            return {}
        end = self.history.ends.get(observation.round)
        after = (
            (end.id if end else "") if observation.reported_by else observation.after
        )
        code = next(
            (found for fact in observation.facts if (found := _EXIT.fullmatch(fact))),
            None,
        )
        return {
            "known": True,
            "source": observation.source,
            "names": observation.names,
            "command": observation.command,
            "exit_code": int(code[1]) if code else None,
            "facts": observation.facts,
            "reported_by": observation.reported_by,
            "snapshot": after or "",
        }


def evidence_of(
    records: Iterable[Record],
) -> tuple[RunState | None, tuple[EvidenceRow, ...]]:
    """Return the state that the records fold to (None for an empty log), and the
    evidence table of its last verdict.
    """
    index, state = EvidenceIndex(), None
    for record in records:
        state = apply(state, record)
        index.add(record)
    return state, index.rows(state) if state else ()


def last_verdict(state: RunState) -> GoalVerdict | None:
    """Return the last verdict; None only if no round was checked.

    One that is not complete says what is missing.
    """
    verdict, problem = state.verdict, state.audit_problem
    unasked = state.status is GoalStatus.FAILED and (
        state.memory.current_step or ""
    ).startswith("audit-")
    if state.iterations and (verdict is None or unasked):
        why = f"the judge could not be asked: {problem}" if problem else state.message
        return GoalVerdict(
            score=0.0, complete=False, missing=why or NOT_SAID, source="fallback"
        )
    if verdict is None or verdict.complete or verdict.missing.strip():
        return verdict
    open_ones = (
        f"{item.criterion}: {item.missing}".rstrip(": ")
        for item in verdict.criteria
        if not item.satisfied
    )
    return verdict.model_copy(
        update={"missing": "\n".join(open_ones) or verdict.blocked or NOT_SAID}
    )


NOT_SAID = "the check did not say what is missing"


def outcome_of(
    state: RunState,
    run_path: str = "",
    *,
    evidence: tuple[EvidenceRow, ...] = (),
    lost: bool = False,
) -> GoalOutcome:
    """Return the outcome of a state, also of a run that has not ended (status
    `running`).

    `lost`: its process is gone.
    """
    return GoalOutcome(
        run_id=state.goal.run_id,
        parent=state.goal.parent,
        objective=state.goal.description,
        derived_criteria=state.goal.derived_criteria,
        status=state.status,
        stop_reason=state.stop_reason,
        message=state.message,
        iterations=state.iterations,
        verdict=last_verdict(state),
        evidence=evidence,
        attempts=state.attempts,
        usage=state.accounts(over=lost or None),
        agent_usage=state.agents_at_work(over=lost or None),
        limits=state.plan.limits,
        models=state.models,
        workspace=state.workspace,
        changes=state.changes,
        gone_or_reverted=state.gone_or_reverted,
        labels=_labels(state),
        protected_changes=state.protected_changes,
        differing=state.differing,
        left_changed=state.left_changed,
        check_environment=state.check_environment,
        approvals=tuple(map(approval_row, state.approvals)),
        questions=state.memory.open_questions,
        redacted=state.redacted,
        started_at=state.goal.created_at,
        finished_at=state.ended_at,
        duration=state.elapsed,
        waited=state.waited,
        resume_at=resume_at(state),
        run_path=run_path,
        signal=state.signal,
    )


def _labels(state: RunState) -> tuple[str, ...]:
    of_the_end = [Label.NOT_AUDITED.value] if state.lacks_audit else []
    if state.left_changed and state.status not in (
        GoalStatus.RUNNING,
        GoalStatus.COMPLETE,
    ):
        of_the_end.append(Label.PROTECTED_CHANGED.about(some(state.left_changed)))
    return tuple(dict.fromkeys((*state.labels, *state.check_labels, *of_the_end)))


def approval_row(item: Approval) -> ApprovalRow:
    """Return an approval as reports and outcome show it."""
    about = item.model_dump(include=set(ApprovalFacts.model_fields))
    diff = item.preview.sha256 if item.preview else ""
    return ApprovalRow(**about, decision=item.decision or "waiting", diff=diff)


_MODELS: dict[str, Any] = {
    "goal": Goal,
    "outcome": GoalOutcome,
    "state": RunState,
    "events": Record,
}


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of goal files, outcomes, states or log records.

    Raise UsageError for another name.
    """
    if name not in _MODELS:
        raise UsageError(
            f"there is no schema {name!r:.40}", f"known: {', '.join(_MODELS)}"
        )
    value = TypeAdapter(_MODELS[name]).json_schema(
        mode="validation" if name == "goal" else "serialization"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **value,
        "title": f"goal: {name}",
    }
