"""The eight measures of the Goals-and-State document over runs: samples, and which of them are good."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from goalrunner.app.previous_run import frozen_table
from goalrunner.core import events
from goalrunner.core.decision import AskApproval, decide
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Record
from goalrunner.core.fold import apply
from goalrunner.core.outcome import GoalStatus, StopReason
from goalrunner.core.progress import record_status
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import outcome_of
from goalrunner.records.event_log import read_records
from goalrunner.records.run_folder import RunFolder


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
    records: list[Record]
    states: list[RunState]
    damage: str = ""

    def after(self) -> Iterator[tuple[Record, RunState]]:
        return zip(self.records, self.states, strict=False)


def _read(folder: RunFolder) -> _Course:
    course, state = _Course(folder, [], []), None
    try:
        for record in read_records(folder.events):
            course.records.append(record)
            state = apply(state, record)
            course.states.append(state)
    except RecordError as error:
        course.damage = error.message
    return course


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
    yield "" if course.states and twice == course.states[-1] else "an event that is applied twice changes the state"
    ends = [state for record, state in course.after() if isinstance(record.event, events.RunEnded)]
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
        later = [record.event for record in course.records[number + 1 : end]]
        went_on = any(
            isinstance(event, events.StepStarted | events.RoundStarted | events.AuditStarted)
            or (isinstance(event, events.RunEnded) and event.status is not GoalStatus.FAILED)
            for event in later
        )
        yield "" if went_on else f"event {number + 1}: nothing followed the resumption"


def _fresh(course: _Course) -> Iterator[str]:
    """Whether no complete verdict rests on outdated evidence."""
    for record in course.records:
        if isinstance(event := record.event, events.VerdictRecorded):
            outdated = event.verdict.complete and event.stale
            yield f"event {record.seq}: complete, with outdated {', '.join(event.stale)}" if outdated else ""


def _kept(course: _Course) -> Iterator[str]:
    """Whether each approval that was asked for is still known at the end, with its first decision."""
    asked: dict[str, str | None] = {}
    for record in course.records:
        if isinstance(event := record.event, events.ApprovalRequested):
            asked[event.approval_id] = None
        elif isinstance(event, events.ApprovalRecorded):
            asked[event.approval_id] = asked.get(event.approval_id) or event.decision
    known = {item.id: item.decision for item in course.states[-1].approvals} if course.states else {}
    yield from ("" if known.get(name, "") == decision else f"{name} is lost" for name, decision in asked.items())


def _stopped(course: _Course) -> Iterator[str]:
    """Whether the state after each end has its reason, and a complete one a verdict or validators that say so."""
    for record, state in course.after():
        if isinstance(event := record.event, events.RunEnded):
            stop = state.memory.stop_reason
            proven = state.validators_green or (state.verdict is not None and state.verdict.complete)
            if stop != record_status(event.stop_reason)[1]:
                yield f"event {record.seq}: {stop} in the state, {event.stop_reason} in the log"
            elif event.status is GoalStatus.COMPLETE and not proven:
                yield f"event {record.seq}: complete without a proof"
            else:
                yield ""


def _promoted(course: _Course) -> Iterator[str]:
    """Whether the goal allowed each fact that was kept for later runs."""
    found = [record.event for record in course.records if isinstance(record.event, events.MemoryPromoted)]
    allowed = frozen_table(course.folder).get("memory", {}).get("promote", ()) if found else ()
    yield from ("" if event.kind in allowed else f"{event.memory_id}: {event.kind} is not allowed" for event in found)


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
        course = _read(folder)
        for name, samples in MEASURES.items():
            found[name] += [f"{folder.run_id}: {fault}" if fault else "" for fault in samples(course)]
    return tuple(
        Measure(name, sum(not one for one in samples), len(samples), tuple(filter(None, samples))[:_SHOWN])
        for name, samples in found.items()
    )
