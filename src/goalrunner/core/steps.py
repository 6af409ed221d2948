"""The steps in a run's working memory: the runner's own, and those of the agent's plan. A step is done with evidence."""

from __future__ import annotations

import re

from goalrunner.core.events import PlanProposed
from goalrunner.core.run_state import KEPT, Phase, RunState

_RUNNERS = re.compile(
    r"baseline|(?:round|critique|validate|review_checks|audit|confirm|prove)-.*"
)


def is_runners(step: str) -> bool:
    """Return whether a step is one of the runner's own steps; an agent's plan must not contain these."""
    return _RUNNERS.fullmatch(step) is not None


def with_step(state: RunState, step: str | None) -> RunState:
    """Return the state after a step of the runner started. A step that was open before was interrupted.

    A step of the agent's plan is pending again: the end of a turn does not prove that it is done.
    """
    current, pending = state.memory.current_step, state.memory.pending_steps
    if current is not None and not is_runners(current):
        pending = (current, *pending)
    return state.with_memory(current_step=step, pending_steps=pending).replace(
        seen="" if step else state.seen
    )


def with_step_done(state: RunState, evidence: str = "") -> RunState:
    """Return the state after the current step is done, with its evidence: an observation, or the event itself."""
    current = state.memory.current_step
    if current is None:
        return state
    step = current if is_runners(current) else f"round-{state.round}"
    shown_by = evidence or state.seen or f"e{state.memory.version + 1}"
    return _completed(with_step(state, None), {step: shown_by})


def _completed(state: RunState, steps: dict[str, str]) -> RunState:
    """Return the state with completed steps and their evidence; the newest are kept."""
    earlier = (step for step in state.memory.completed_steps if step not in steps)
    done = (*earlier, *steps)[-KEPT:]
    evidence = {**state.memory.step_evidence, **steps}
    return state.with_memory(
        completed_steps=done, step_evidence={step: evidence[step] for step in done}
    )


def with_plan(state: RunState, event: PlanProposed) -> RunState:
    """Return the state with the agent's plan, which replaces the one before it except for completed steps."""
    done = _completed(state, event.completed)
    current = event.current or done.memory.current_step
    if current in event.completed:
        current = f"round-{state.round}" if state.round else None
    planned = (
        step
        for step in event.pending
        if step != current and step not in event.completed
    )
    runners = (step for step in done.memory.pending_steps if is_runners(step))
    pending = tuple(dict.fromkeys((*planned, *runners)))
    return done.with_memory(
        current_step=current, pending_steps=pending, proposed_stop=event.stop_reason
    )


def remaining_steps(state: RunState) -> tuple[str, ...]:
    """Return the pending steps: those of the agent's plan, then the runner's. None are left after completion."""
    memory = state.memory
    if state.phase is Phase.ENDED:
        return () if memory.stop_reason == "success" else memory.pending_steps
    planned = (step for step in memory.pending_steps if not is_runners(step))
    return tuple(
        dict.fromkeys(
            step
            for step in (*planned, *_upcoming(state))
            if step != memory.current_step
        )
    )


def _upcoming(state: RunState) -> list[str]:
    """Return the runner's next steps until the goal is proven or the next round starts."""
    number, plan = state.round, state.plan
    again = [f"round-{number + 1}"]
    audit = [f"audit-{number}"] if plan.has_judge else []
    match state.phase:
        case Phase.READY:
            return [*(["baseline"] if plan.takes_baseline else []), *again]
        case Phase.BASELINED:
            is_green = state.baseline is not None and state.baseline.standing == "green"
            return audit if is_green and not plan.needs_round else again
        case Phase.WORKING | Phase.WORKED:
            critique = (
                [f"critique-{number}"]
                if plan.is_scored and state.critique is None
                else []
            )
            return [
                *critique,
                *([f"validate-{number}"] if plan.validators else []),
                *audit,
            ]
        case Phase.VALIDATED if not state.decided_by_validators:
            return audit
        case Phase.VALIDATED | Phase.JUDGED:
            return [] if state.verdict is not None and state.verdict.complete else again
        case _:
            return (
                again if state.phase is Phase.CONFIRMED and not state.confirmed else []
            )
