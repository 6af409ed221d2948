"""The measures of Goals and State over the log of a run, each as samples: empty for good, words for what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from goalrunner.core import events
from goalrunner.core.decision import AskApproval, decide
from goalrunner.core.events import Record, RunEnded
from goalrunner.core.fold import apply
from goalrunner.core.outcome import GoalOutcome, GoalStatus, StopReason, record_status
from goalrunner.core.run_state import RunState
from goalrunner.core.state_outcome import outcome_of
from tests.support.course import Course, how
from tests.support.transitions import faults

Samples = dict[str, list[str]]


def measure(course: Course) -> Samples:
    """Return every sample of every measure that this run gives.

    "fresh state" is the stale-state rate of the document turned round, "approvals kept" its lost-approval rate.
    """
    records = course.log
    states = list(_states(records))
    return {
        "state completeness": [_incomplete(state) for state in states],
        "transition validity": faults(records),
        "replay success": list(_replays(records, states, course.ends[-1:])),
        "resume success": [
            "" if good else "it did not go on where it was" for good in course.resumes
        ],
        "fresh state": list(_stale(records, states)),
        "approvals kept": list(_lost(records, states)),
        "stop-reason accuracy": list(_stops(course, states[-1])),
        "promotion-policy accuracy": list(_promotions(course, records)),
    }


def _states(records: Sequence[Record]) -> Iterator[RunState]:
    state: RunState | None = None
    for record in records:
        state = apply(state, record)
        yield state


def _incomplete(state: RunState) -> str:
    """What a state does not say that it has to."""
    memory = state.memory
    where = f"event {memory.version}: "
    if not (
        state.goal.success_criteria or state.plan.validators or state.plan.has_judge
    ):
        return where + "nothing observable says when the goal is reached"
    decided = isinstance(decide(state), (RunEnded, AskApproval))
    if not (memory.current_step or memory.pending_steps or decided):
        return where + "it does not say what remains"
    unshown = [
        step
        for step in memory.completed_steps
        if not _exists(state, memory.step_evidence.get(step, ""))
    ]
    if unshown:
        return where + f"no evidence of {unshown}"
    if not all(_exists(state, reference) for reference in memory.evidence_refs):
        return where + "a reference to no observation"
    if (
        memory.budget_state.iteration_count != state.iterations
        or memory.constraints != state.goal.constraints
    ):
        return where + "budget or constraints are not those of the run"
    # The pattern takes the stop reason away when what it waited for is approved.
    approved = state.stop_reason is StopReason.APPROVAL_REQUIRED and not state.waiting
    ended = state.status is not GoalStatus.RUNNING and not approved
    return where + "no stop reason" if ended and memory.stop_reason is None else ""


def _exists(state: RunState, reference: str) -> bool:
    found = re.fullmatch(r"([oe])([1-9][0-9]*)", reference)
    return found is not None and int(found[2]) <= (
        state.observations if found[1] == "o" else state.memory.version
    )


def _replays(
    records: Sequence[Record], states: Sequence[RunState], ends: Sequence[GoalOutcome]
) -> Iterator[str]:
    """The log folds to the same twice, with every event applied twice, and to what the process itself said at the end."""
    twice: RunState | None = None
    for record in records:
        twice = apply(apply(twice, record), record)
    yield "" if twice == states[-1] else "an event applied twice changed something"
    yield (
        ""
        if list(_states(records)) == list(states)
        else "a second replay gives another state"
    )
    for end in ends:
        last = max(
            at for at, state in enumerate(states) if _is_ending(records[at].event)
        )
        folded = outcome_of(states[last], end.run_path).model_copy(
            update={"evidence": end.evidence}
        )
        yield "" if folded == end else "the log does not fold to outcome.json"


def _is_ending(event: events.Event) -> bool:
    return isinstance(event, events.RunEnded)


def _stale(records: Sequence[Record], states: Sequence[RunState]) -> Iterator[str]:
    """After each result the state holds the newest one, and no complete verdict rests on what is out of date."""
    for record, state in zip(records, states, strict=True):
        where = f"event {record.seq}: "
        match record.event:
            case events.ToolResultRecorded() as event:
                fresh = state.memory.evidence_refs[-1:] == (event.evidence_ref,)
            case events.ValidatorsFinished() as event:
                fresh = (state.validators, state.leaked) == (
                    event.results,
                    event.leaked,
                )
            case events.VerdictRecorded() as event:
                fresh = state.verdict == event.verdict and not (
                    event.verdict.complete and event.stale
                )
            case events.RoundFinished() as event:
                fresh = state.snapshot == event.snapshot
            case _:
                continue
        yield (
            ""
            if fresh
            else where + f"an older result stands in place of {record.event.type}"
        )


def _lost(records: Sequence[Record], states: Sequence[RunState]) -> Iterator[str]:
    """After every event each approval is still known, with what was said of it first; none of them ran unapproved."""
    decisions: dict[str, str | None] = {}
    for record, state in zip(records, states, strict=True):
        match record.event:
            case events.ApprovalRequested() as event:
                decisions[event.approval_id] = None
            case events.ApprovalRecorded() as event:
                decisions[event.approval_id] = (
                    decisions[event.approval_id] or event.decision
                )
            case _:
                pass
        known = {approval.id: approval.decision for approval in state.approvals}
        for identifier, decision in decisions.items():
            kept = identifier in known and known[identifier] == decision
            yield "" if kept else f"event {record.seq}: {identifier} is lost"


def _stops(course: Course, state: RunState) -> Iterator[str]:
    for end, expected in zip(course.ends, course.expected, strict=True):
        yield "" if how(end) == expected else f"it ended {how(end)}, not {expected}"
    if state.stop_reason is not None:
        words = (state.goal.status, state.memory.stop_reason)
        due = record_status(state.stop_reason)
        yield "" if words == due else f"the state says {words}, not {due}"


def _promotions(course: Course, records: Sequence[Record]) -> Iterator[str]:
    yield from (
        "" if good else "the policy says otherwise" for good in course.promotions
    )
    if not course.promotions:
        kept = any(
            isinstance(record.event, events.MemoryPromoted) for record in records
        )
        nothing = not kept and not (course.home / "memory").exists()
        yield "" if nothing else "a fact was promoted without a request"
