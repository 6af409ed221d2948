"""The state of a run after some events."""

from __future__ import annotations

from goalrunner.core.events import Event, GoalCreated, GoalRecord, RunRules
from goalrunner.core.fold import apply
from goalrunner.core.run_state import RunState
from tests.support.memory import MemoryLog


def state_after(
    plan: RunRules, *happened: Event, criteria: tuple[str, ...] = ()
) -> RunState:
    """A run with that plan, in which that happened."""
    log = MemoryLog()
    goal = GoalRecord(
        goal_id="g",
        run_id="r",
        description="d",
        success_criteria=criteria,
        created_at="t",
        updated_at="t",
    )
    for event in (GoalCreated(goal=goal, plan=plan), *happened):
        log.append(event)
    state: RunState | None = None
    for record in log.records:
        state = apply(state, record)
    assert state is not None
    return state
