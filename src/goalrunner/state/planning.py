"""How the agent's own plan changes a state: proposed by the model, kept by the runner. Pure."""

from __future__ import annotations

from goalrunner import events
from goalrunner.state.changes import with_memory
from goalrunner.state.run_state import KEPT, RunState

_RUNNERS = ("validate-", "audit-")
"""Beginnings of the steps that the runner itself has before it."""


def planned(state: RunState, event: events.PlanProposed) -> RunState:
    """The agent's steps beside the runner's; each completed one names the observation that shows it."""
    memory = state.memory
    done = tuple(step for step in event.completed if step not in memory.completed_steps)
    runners = tuple(step for step in memory.pending_steps if step.startswith(_RUNNERS))
    return with_memory(
        state,
        current_step=event.current or memory.current_step,
        pending_steps=tuple(dict.fromkeys((*event.pending, *runners))),
        completed_steps=(*memory.completed_steps, *done)[-KEPT:],
        step_evidence={**memory.step_evidence, **event.completed},
    )
