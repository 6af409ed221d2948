"""How the agent's own plan changes a state: proposed by the model, kept by the runner. Pure."""

from __future__ import annotations

from goalrunner import events
from goalrunner.state.changes import with_memory
from goalrunner.state.run_state import RunState
from goalrunner.state.steps import completed, is_runners


def planned(state: RunState, event: events.PlanProposed) -> RunState:
    """The agent's steps beside the runner's; each completed one names the observation that shows it.

    A plan replaces the one before it, but for what is completed: that stays.
    """
    done = completed(state, event.completed)
    before = done.memory
    current = event.current or before.current_step
    if current in event.completed:
        current = None if state.round == 0 else f"round-{state.round}"
    left = (step for step in event.pending if step != current and step not in event.completed)
    runners = (step for step in before.pending_steps if is_runners(step))
    return with_memory(
        done,
        current_step=current,
        pending_steps=tuple(dict.fromkeys((*left, *runners))),
        proposed_stop=event.stop_reason,
    )
