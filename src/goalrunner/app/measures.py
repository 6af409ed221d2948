"""The eight measures of the Goals-and-State document over runs: samples, and which of them are good."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from goalrunner.app.previous_run import frozen_table
from goalrunner.core import events
from goalrunner.core.decision import AskApproval, decide
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Record
from goalrunner.core.fold import apply
from goalrunner.core.outcome import GoalStatus, record_status
from goalrunner.core.run_state import RunState
from goalrunner.core.summary import outcome_of
from goalrunner.records.event_log import read_records
from goalrunner.records.run_folder import RunFolder

_COMPLETE, _VALID, _REPLAYED, _RESUMED, _FRESH, _KEPT, _STOPPED, _PROMOTED = MEASURES = (
    "state completeness",
    "transition validity",
    "replay success",
    "resume success",
    "fresh state",
    "approvals kept",
    "stop-reason accuracy",
    "promotion-policy accuracy",
)
"""In the order of the document. "fresh state" is its stale-state rate and "approvals kept" its lost-approval rate, inverted."""

_SHOWN = 3
_ELSEWHERE = ("evidence", "run_path")
"""Keys of an outcome that do not come from the log alone; a folder of runs can be moved."""


@dataclass(frozen=True)
class Measure:
    """One measure: how many samples there were, how many were good, and what was wrong with the first bad ones."""

    name: str
    good: int
    samples: int
    faults: tuple[str, ...]
    rate: float | None
    """The share of good samples; None if there were none, so that nothing is known."""


def measure(folders: Sequence[RunFolder]) -> tuple[Measure, ...]:
    """Return the measures over all samples of some runs. Raise RecordError for a goal that cannot be read."""
    found: dict[str, list[str]] = {name: [] for name in MEASURES}
    for folder in folders:
        for name, fault in _samples(folder):
            found[name].append(f"{folder.run_id}: {fault}" if fault else "")
    measures = []
    for name, samples in found.items():
        faults, number = [fault for fault in samples if fault], len(samples)
        good = number - len(faults)
        measures.append(Measure(name, good, number, tuple(faults[:_SHOWN]), good / number if number else None))
    return tuple(measures)


def _samples(folder: RunFolder) -> Iterator[tuple[str, str]]:
    """Yield the samples of a run: the name of the measure, and what is wrong; empty for a good one."""
    records: list[Record] = []
    states: list[RunState] = []  # after each record
    damage = ""
    try:
        for record in read_records(folder.events):
            records.append(record)
            states.append(apply(states[-1] if states else None, record))
    except RecordError as error:
        damage = error.message
    allowed = None
    for record, state in zip(records, states, strict=False):
        event = record.event
        yield _COMPLETE, _missing_part(state)
        yield _VALID, ""
        if isinstance(event, events.VerdictRecorded):
            outdated = event.verdict.complete and event.stale
            yield _FRESH, f"event {record.seq}: complete, with outdated {', '.join(event.stale)}" if outdated else ""
        elif isinstance(event, events.RunEnded):
            yield _STOPPED, _wrong_end(event, state)
        elif isinstance(event, events.MemoryPromoted):
            allowed = allowed or frozen_table(folder).get("memory", {}).get("promote", ())
            yield _PROMOTED, "" if event.kind in allowed else f"{event.memory_id}: {event.kind} is not allowed"
    if damage:
        yield _VALID, damage
    twice: RunState | None = None
    for record in records[: len(states)]:
        twice = apply(apply(twice, record), record)
    fault = "" if states and twice == states[-1] else damage or "an event that is applied twice changes the state"
    yield _REPLAYED, fault
    yield from ((_REPLAYED, fault) for fault in _wrong_outcome(folder, records, states))
    yield from ((_RESUMED, fault) for fault in _resumptions(records))
    yield from ((_KEPT, fault) for fault in _approvals(records, states))


def _missing_part(state: RunState) -> str:
    """Return which of these a state lacks: a check, the next step, evidence of completed steps, a stop reason; else empty."""
    memory = state.memory
    is_open = state.status is GoalStatus.RUNNING and not isinstance(decide(state), events.RunEnded | AskApproval)
    # An approval lets a run that has ended go on, whatever ended it: the working memory then has no stop reason.
    approved = any(item.decided_at >= state.ended_at for item in state.approvals)
    unshown = [step for step in memory.completed_steps if not memory.step_evidence.get(step)]
    fault = ""
    if not (state.goal.success_criteria or state.plan.validators or state.plan.has_judge or state.plan.hidden):
        fault = "nothing says when the goal is reached"
    elif is_open and not (memory.current_step or memory.pending_steps):
        fault = "it does not say what remains"
    elif unshown:
        fault = f"no evidence of {', '.join(unshown)}"
    elif state.status is not GoalStatus.RUNNING and not approved and memory.stop_reason is None:
        fault = "no stop reason"
    return f"event {memory.version}: {fault}" if fault else ""


def _wrong_end(event: events.RunEnded, state: RunState) -> str:
    """Return the fault of an end, if any: the state has another stop reason, or it is complete without a proof."""
    stop, version = state.memory.stop_reason, state.memory.version
    proven = state.validators_green or (state.verdict is not None and state.verdict.complete)
    if stop != record_status(event.stop_reason)[1]:
        return f"event {version}: {stop} in the state, {event.stop_reason} in the log"
    return "" if proven or event.status is not GoalStatus.COMPLETE else f"event {version}: complete without a proof"


def _wrong_outcome(folder: RunFolder, records: Sequence[Record], states: Sequence[RunState]) -> Iterator[str]:
    """Yield how outcome.json differs from the log, if there is one."""
    ends = [state for record, state in zip(records, states, strict=False) if isinstance(record.event, events.RunEnded)]
    try:
        written = json.loads(folder.outcome.read_bytes())
    except (OSError, ValueError):
        return
    if ends:
        folded = outcome_of(ends[-1], str(folder.path)).model_dump(mode="json")
        differ = [key for key, value in folded.items() if key not in _ELSEWHERE and written.get(key, value) != value]
        yield f"outcome.json differs from the log: {', '.join(differ)}" if differ else ""


def _resumptions(records: Sequence[Record]) -> Iterator[str]:
    """Yield whether each resumed run went on: another step began, or it ended without a failure."""
    found = [number for number, record in enumerate(records) if isinstance(record.event, events.RunResumed)]
    for number, end in pairwise((*found, len(records))):
        went_on = any(
            isinstance(record.event, events.StepStarted | events.RoundStarted | events.AuditStarted)
            or (isinstance(record.event, events.RunEnded) and record.event.status is not GoalStatus.FAILED)
            for record in records[number + 1 : end]
        )
        yield "" if went_on else f"event {number + 1}: nothing followed the resumption"


def _approvals(records: Sequence[Record], states: Sequence[RunState]) -> Iterator[str]:
    """Yield whether each approval that was asked for is still known at the end, with its first decision."""
    asked: dict[str, str | None] = {}
    for record in records:
        if isinstance(record.event, events.ApprovalRequested):
            asked.setdefault(record.event.approval_id, None)
        elif isinstance(record.event, events.ApprovalRecorded):
            asked[record.event.approval_id] = asked.get(record.event.approval_id) or record.event.decision
    known = {item.id: item.decision for item in states[-1].approvals} if states else {}
    yield from ("" if known.get(name, "") == decision else f"{name} is lost" for name, decision in asked.items())
