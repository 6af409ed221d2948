"""`apply(state, record)`: the only way in which a state changes.

Pure. Applying a record twice changes nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from goalrunner.core import events
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Record
from goalrunner.core.fold import check_reviews, checks, failures, person, turn, usage
from goalrunner.core.fold.resuming import resumed
from goalrunner.core.fold.start_and_end import (
    first_state,
    limit_reached,
    run_ended,
    run_started,
)
from goalrunner.core.run_state import Phase, RunState
from goalrunner.core.steps import remaining_steps, with_plan, with_step

_MOST_NAMES = 100
"""Names of observations that a state keeps."""


def apply(state: RunState | None, record: Record) -> RunState:
    """Return the state after `record`.

    Raise RecordError if events are missing before it, or for a misplaced start.
    """
    if state is None:
        return first_state(record)
    version = state.memory.version
    if record.seq <= version:
        return state
    if record.seq != version + 1:
        raise RecordError(
            f"event {record.seq} follows event {version}: events between them are "
            "missing"
        )
    if isinstance(record.event, events.MemoryPromoted):
        # It may follow the end of the run, and must not change the time of the end.
        return state.with_memory(version=record.seq)
    return _with_common_changes(_changed(state, record), state, record)


def _with_common_changes(after: RunState, before: RunState, record: Record) -> RunState:
    """Return the state with what every event changes.

    That is the number and the time of the last event, the pending steps, and the names
    of observations.
    """
    if after.phase is Phase.ENDED and before.phase is not Phase.ENDED:
        after = after.replace(ended_at=record.at)
    if after is not before:
        after = after.with_memory(pending_steps=remaining_steps(after))
    goal = after.goal.model_copy(update={"updated_at": record.at})
    after = _with_names(after, record.event).with_memory(version=record.seq)
    return after.replace(goal=goal, elapsed=record.elapsed)


def _with_names(state: RunState, event: events.Event) -> RunState:
    """Return the state with the names of the event's observations.

    The newest names of all are kept.
    """
    new_names: dict[str, str] = {}
    for observation in events.shown_observations(event):
        new_names.update(dict.fromkeys(observation.names, observation.id))
    if not new_names:
        return state
    names = dict(state.memory.evidence_names)
    for name in new_names:
        # Removed first, so that a name that is used again is among the newest.
        names.pop(name, None)
    names.update(new_names)
    newest = dict(list(names.items())[-_MOST_NAMES:])
    return state.with_memory(evidence_names=newest)


def _changed(state: RunState, record: Record) -> RunState:  # noqa: C901 - a table
    """Return the state that the function for this event makes."""
    event, at = record.event, record.at
    match event:
        # The run as a whole.
        case events.GoalCreated():
            raise RecordError("a second goal_created in one log")
        case events.RunStarted():
            return run_started(state, event)
        case events.RunResumed():
            return resumed(state, event, at)
        case events.RunEnded():
            return run_ended(state, event)
        case events.LimitReached():
            return limit_reached(state, event)
        case events.SecretsReplaced():
            counts = Counter(state.redacted) + Counter(event.counts)
            return state.replace(redacted=dict(counts))
        # The start.
        case events.SnapshotTaken(moment="start"):
            return state.replace(base=event.snapshot)
        case events.StartKept():
            return state.replace(kept=event.files)
        case events.BaselineTaken():
            return checks.baseline_taken(state, event)
        # The agent's turn.
        case events.StepStarted():
            return with_step(state, event.step_id)
        case events.RoundStarted():
            return turn.round_started(state, event)
        case events.RefinementStarted():
            return turn.refinement_started(state, event)
        case events.MessageRecorded():
            return turn.message_recorded(state, event)
        case events.ToolCalled():
            return turn.tool_called(state, event)
        case events.ToolResultRecorded():
            return turn.tool_result_recorded(state, event)
        case events.PlanProposed():
            return with_plan(state, event)
        case events.BlockReported():
            return state.replace(block_report=event.reason)
        case events.UsageRecorded():
            return usage.usage_recorded(state, event)
        case events.RoundFinished():
            return turn.round_finished(state, event)
        # Failures that pass, waits, and the agents of a run with several.
        case events.WorkFailed():
            return failures.work_failed(state, event, at)
        case events.WaitStarted():
            return failures.wait_started(state, event, at)
        case events.WaitEnded():
            return failures.wait_ended(state, event, at)
        case events.AgentSwitched():
            return failures.agent_switched(state, event)
        # Checks and verdicts.
        case events.CritiqueStarted():
            return checks.critique_started(state, event)
        case events.CritiqueFinished():
            return checks.critique_finished(state, event)
        case events.ValidatorsFinished():
            return checks.validators_finished(state, event)
        case events.WorkspaceChanged():
            return checks.workspace_changed(state, event)
        case events.ChecksReviewStarted():
            return check_reviews.review_started(state, event)
        case events.ChecksReviewed():
            return check_reviews.checks_reviewed(state, event)
        case events.AuditStarted():
            return checks.audit_started(state, event)
        case events.AuditFailed():
            return checks.audit_failed(state, event)
        case events.VerdictRecorded():
            return checks.verdict_recorded(state, event)
        case events.ConfirmationRecorded():
            return checks.confirmation_recorded(state, event)
        # What a person decides.
        case events.QuestionOpened():
            return person.question_opened(state, event)
        case events.QuestionAnswered():
            return person.question_answered(state, event)
        case events.NoteGiven():
            return person.note_given(state, event)
        case events.ApprovalRequested():
            return person.approval_requested(state, event, at)
        case events.ApprovalRecorded():
            return person.approval_recorded(state, event, at)
        # What the log holds, and no decision needs.
        case (
            events.SnapshotTaken()
            | events.MemoryPromoted()
            | events.SessionOpened()
            | events.AgentRan()
            | events.NoteAdded()
            | events.UserSaid()
        ):
            return state
        case _:
            # The type checker reports an event without an arm.
            assert_never(event)
