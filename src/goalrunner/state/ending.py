"""How the last event of a run changes its state: over, and in the words of Goals and State. Pure."""

from __future__ import annotations

from typing import assert_never

from goalrunner import events
from goalrunner.model.outcome import GoalStatus, StopReason
from goalrunner.state.changes import with_fields, with_memory
from goalrunner.state.run_state import Phase, RunState
from goalrunner.state.spending import counted
from goalrunner.state.stops import memory_stop, record_status


def closed(state: RunState, event: events.Ending) -> RunState:
    """How a run ended. An ending that is final stays."""
    match event:
        case events.Completed():
            return _ended(
                with_memory(state, current_step=None), GoalStatus.COMPLETE, StopReason.SATISFIED, event.result_ref
            )
        case events.Blocked():
            return _ended(state, GoalStatus.BLOCKED, event.stop_reason, event.reason)
        case events.Capped():
            return _ended(state, GoalStatus.CAPPED, event.stop_reason, event.reason)
        case events.Cancelled():
            ended = _ended(state, GoalStatus.CANCELLED, event.stop_reason, event.reason)
            return with_fields(ended, signal=event.signal)
        case events.Failed():
            return _ended(state, GoalStatus.FAILED, event.stop_reason, event.reason)
        case _:
            assert_never(event)


def _ended(state: RunState, status: GoalStatus, reason: StopReason, message: str) -> RunState:
    goal = state.goal.model_copy(update={"status": record_status(status, reason)})
    ended = with_memory(state, stop_reason=memory_stop(status, reason))
    left = state.left if state.phase is Phase.ENDED else state.phase
    return counted(
        with_fields(ended, goal=goal, phase=Phase.ENDED, left=left, status=status, stop_reason=reason, message=message)
    )
