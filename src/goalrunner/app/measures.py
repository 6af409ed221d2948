"""The eight measures of the Goals-and-State document over runs: samples, and which of them are good."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from goalrunner.app.previous_run import frozen_table
from goalrunner.core import events
from goalrunner.core.decision import AskApproval, decide
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Record
from goalrunner.core.field_types import Frozen
from goalrunner.core.fold import apply
from goalrunner.core.outcome import GoalStatus, StopReason
from goalrunner.core.progress import record_status
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import outcome_of
from goalrunner.records.event_log import read_records
from goalrunner.records.run_folder import RunFolder

E = TypeVar("E", bound=Frozen)


@dataclass(frozen=True)
class Measure:
    """One measure: how many samples there were, how many were good, and what was wrong with the first bad ones."""

    name: str
    good: int
    samples: int
    faults: tuple[str, ...] = ()

    @property
    def rate(self) -> float | None:
        """The share of good samples; None if there were none, so that nothing is known."""
        return self.good / self.samples if self.samples else None


@dataclass
class _Course:
    """The log of one run, and the state after each of its events."""

    folder: RunFolder
    records: list[Record] = field(default_factory=list)
    states: list[RunState] = field(default_factory=list)
    damage: str = ""

    def __post_init__(self) -> None:
        try:
            for record in read_records(self.folder.events):
                self.records.append(record)
                self.states.append(apply(self.states[-1] if self.states else None, record))
        except RecordError as error:
            self.damage = error.message

    def of(self, kind: type[E]) -> Iterator[tuple[Record, E, RunState]]:
        """Yield the events of a kind, each with its record and the state after it."""
        for record, state in zip(self.records, self.states, strict=False):
            if isinstance(event := record.event, kind):
                yield record, event, state


def _complete(course: _Course) -> Iterator[str]:
    """Whether each state names what decides, what remains, the evidence of completed steps, and why it stopped."""
    for state in course.states:
        memory = state.memory
        is_open = state.status is GoalStatus.RUNNING and not isinstance(decide(state), events.RunEnded | AskApproval)
        approved = state.stop_reason is StopReason.APPROVAL_REQUIRED and not state.waiting
        if not (state.goal.success_criteria or state.plan.validators or state.plan.has_judge or state.plan.hidden):
            yield f"event {memory.version}: nothing says when the goal is reached"
        elif is_open and not (memory.current_step or memory.pending_steps):
            yield f"event {memory.version}: it does not say what remains"
        elif unshown := [step for step in memory.completed_steps if not memory.step_evidence.get(step)]:
            yield f"event {memory.version}: no evidence of {', '.join(unshown)}"
        elif state.status is not GoalStatus.RUNNING and not approved and memory.stop_reason is None:
            yield f"event {memory.version}: no stop reason"
        else:
            yield ""


def _valid(course: _Course) -> Iterator[str]:
    """Whether each event may follow the ones before it."""
    yield from ("" for _ in course.states)
    if course.damage:
        yield course.damage


_ELSEWHERE = ("evidence", "run_path")
"""Keys of an outcome that do not come from the log alone; a folder of runs can be moved."""


def _replayed(course: _Course) -> Iterator[str]:
    """Whether the log folds to the same state if each event is applied twice, and to outcome.json."""
    twice: RunState | None = None
    for record in course.records[: len(course.states)]:
        twice = apply(apply(twice, record), record)
    fault = course.damage or "an event that is applied twice changes the state"
    yield "" if course.states and twice == course.states[-1] else fault
    ends = [state for _, _, state in course.of(events.RunEnded)]
    try:
        written = json.loads(course.folder.outcome.read_bytes())
    except (OSError, ValueError):
        return
    if ends:
        folded = outcome_of(ends[-1], str(course.folder.path)).model_dump(mode="json")
        differ = [key for key, value in folded.items() if key not in _ELSEWHERE and written.get(key, value) != value]
        yield f"outcome.json differs from the log: {', '.join(differ)}" if differ else ""


def _resumed(course: _Course) -> Iterator[str]:
    """Whether each resumed run went on: another step began, or it ended without a failure."""
    found = [number for number, record in enumerate(course.records) if isinstance(record.event, events.RunResumed)]
    for number, end in pairwise((*found, len(course.records))):
        went_on = any(
            isinstance(record.event, events.StepStarted | events.RoundStarted | events.AuditStarted)
            or (isinstance(record.event, events.RunEnded) and record.event.status is not GoalStatus.FAILED)
            for record in course.records[number + 1 : end]
        )
        yield "" if went_on else f"event {number + 1}: nothing followed the resumption"


def _fresh(course: _Course) -> Iterator[str]:
    """Whether no complete verdict rests on outdated evidence."""
    for record, event, _ in course.of(events.VerdictRecorded):
        outdated = event.verdict.complete and event.stale
        yield f"event {record.seq}: complete, with outdated {', '.join(event.stale)}" if outdated else ""


def _kept(course: _Course) -> Iterator[str]:
    """Whether each approval that was asked for is still known at the end, with its first decision."""
    asked: dict[str, str | None] = {event.approval_id: None for _, event, _ in course.of(events.ApprovalRequested)}
    for _, event, _ in course.of(events.ApprovalRecorded):
        asked[event.approval_id] = asked.get(event.approval_id) or event.decision
    known = {item.id: item.decision for item in course.states[-1].approvals} if course.states else {}
    yield from ("" if known.get(name, "") == decision else f"{name} is lost" for name, decision in asked.items())


def _stopped(course: _Course) -> Iterator[str]:
    """Whether the state after each end has its reason, and a complete one a verdict or validators that say so."""
    for record, event, state in course.of(events.RunEnded):
        stop = state.memory.stop_reason
        proven = state.validators_green or (state.verdict is not None and state.verdict.complete)
        if stop != record_status(event.stop_reason)[1]:
            yield f"event {record.seq}: {stop} in the state, {event.stop_reason} in the log"
        else:
            is_wrong = event.status is GoalStatus.COMPLETE and not proven
            yield f"event {record.seq}: complete without a proof" if is_wrong else ""


def _promoted(course: _Course) -> Iterator[str]:
    """Whether the goal allowed each fact that was kept for later runs."""
    for _, event, _ in course.of(events.MemoryPromoted):
        allowed = frozen_table(course.folder).get("memory", {}).get("promote", ())
        yield "" if event.kind in allowed else f"{event.memory_id}: {event.kind} is not allowed"


MEASURES: dict[str, Callable[[_Course], Iterable[str]]] = {
    "state completeness": _complete,
    "transition validity": _valid,
    "replay success": _replayed,
    "resume success": _resumed,
    "fresh state": _fresh,
    "approvals kept": _kept,
    "stop-reason accuracy": _stopped,
    "promotion-policy accuracy": _promoted,
}
"""In the order of the document. "fresh state" is its stale-state rate and "approvals kept" its lost-approval rate, inverted."""

_SHOWN = 3


def measure(folders: Sequence[RunFolder]) -> tuple[Measure, ...]:
    """Return the measures over all samples of some runs. Raise RecordError for a goal that cannot be read."""
    found: dict[str, list[str]] = {name: [] for name in MEASURES}
    for folder in folders:
        course = _Course(folder)
        for name, samples in MEASURES.items():
            found[name] += [f"{folder.run_id}: {fault}" if fault else "" for fault in samples(course)]
    return tuple(
        Measure(name, sum(not one for one in samples), len(samples), tuple(filter(None, samples))[:_SHOWN])
        for name, samples in found.items()
    )
