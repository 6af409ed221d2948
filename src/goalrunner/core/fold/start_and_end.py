"""The first state of a run, and the state at its end."""

from __future__ import annotations

from goalrunner.core import events
from goalrunner.core.errors import RecordError
from goalrunner.core.events import Record
from goalrunner.core.fold.person import with_withdrawn
from goalrunner.core.fold.usage import with_usage_counted
from goalrunner.core.outcome import FINAL, GoalStatus, record_status
from goalrunner.core.run_state import Phase, RunState, WorkingMemory
from goalrunner.core.steps import remaining_steps


def first_state(record: Record) -> RunState:
    """Return the state after the first record. Raise RecordError for another event."""
    event = record.event
    if not isinstance(event, events.GoalCreated):
        raise RecordError(f"the log begins with {event.type}, not with goal_created")
    goal = event.goal
    memory = WorkingMemory(
        run_id=goal.run_id,
        goal_id=goal.goal_id,
        constraints=goal.constraints,
        version=record.seq,
    )
    state = RunState(goal=goal, memory=memory, plan=event.plan, elapsed=record.elapsed)
    return state.with_memory(pending_steps=remaining_steps(state))


def run_started(state: RunState, event: events.RunStarted) -> RunState:
    return state.with_budget(deadline_at=event.deadline_at).replace(
        models=event.models,
        workspace=event.workspace,
        isolated=event.isolated,
        clone=event.clone,
        sandbox=event.sandbox,
        check_environment=event.check_environment,
        external=bool(event.agent_command),
        agent_command=event.agent_command,
        goal_file=event.goal_file,
        handed=event.handed,
        notes=event.notes,
        labels=event.labels,
    )


# The limit decides now, and not a wait or a failure at hand.
def limit_reached(state: RunState, event: events.LimitReached) -> RunState:
    """Return the state in which one last check decides how the run ends."""
    return state.replace(
        limit=event.end, resets_at=event.resets_at, wait=None, failure=None
    )


def run_ended(state: RunState, event: events.RunEnded) -> RunState:
    """Return the state of the ended run. A second end keeps the phase of the first."""
    goal_status, memory_stop = record_status(event.stop_reason)
    is_complete = event.status is GoalStatus.COMPLETE
    is_cancelled = event.status is GoalStatus.CANCELLED
    if event.stop_reason in FINAL:
        # The run cannot go on, so no decision of a person would have an effect.
        state = with_withdrawn(state, lambda _: True)
    ended = state.with_memory(
        stop_reason=memory_stop,
        # The step that was interrupted is named in reports.
        current_step=None if is_complete else state.memory.current_step,
    ).replace(
        goal=state.goal.model_copy(update={"status": goal_status}),
        phase=Phase.ENDED,
        asking=False,
        left=state.phase_before_end,
        status=event.status,
        stop_reason=event.stop_reason,
        message=event.message,
        signal=event.signal if is_cancelled else state.signal,
    )
    return with_usage_counted(ended)
