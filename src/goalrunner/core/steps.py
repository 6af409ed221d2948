"""The steps in a run's working memory. A step is done with evidence.

Some are the runner's own, named `validate-2`; the others are those of the agent's plan.
"""

from __future__ import annotations

import re

from goalrunner.core.events import PlanProposed
from goalrunner.core.run_state import KEPT, Phase, RunState

_RUNNER_STEP = re.compile(
    r"baseline|(?:round|critique|validate|review_checks|audit|confirm|prove)-.*"
)


def is_runner_step(step: str) -> bool:
    """Return whether a step is one of the runner's own.

    An agent's plan must not contain these.
    """
    return _RUNNER_STEP.fullmatch(step) is not None


def with_step(state: RunState, step: str | None) -> RunState:
    """Return the state after a step of the runner started.

    A step that was open before was interrupted. A step of the agent's plan is pending
    again: the end of a turn does not prove that it is done.
    """
    current, pending = state.memory.current_step, state.memory.pending_steps
    if current is not None and not is_runner_step(current):
        pending = (current, *pending)
    state = state.with_memory(current_step=step, pending_steps=pending)
    # The evidence of an earlier step is none of this one.
    return state.replace(seen="") if step else state


def with_step_done(state: RunState, evidence: str = "") -> RunState:
    """Return the state after the current step is done.

    Its evidence is an observation, or the event itself.
    """
    current = state.memory.current_step
    if current is None:
        return state
    # A step of the plan needs evidence of its own; what ended is the agent's turn.
    step = current if is_runner_step(current) else f"round-{state.round}"
    shown_by = evidence or state.seen or f"e{state.memory.version + 1}"
    return _with_completed(with_step(state, None), {step: shown_by})


def _with_completed(state: RunState, steps: dict[str, str]) -> RunState:
    """Return the state with completed steps and their evidence; the newest are kept."""
    earlier = [step for step in state.memory.completed_steps if step not in steps]
    done = (*earlier, *steps)[-KEPT:]
    evidence = {**state.memory.step_evidence, **steps}
    return state.with_memory(
        completed_steps=done, step_evidence={step: evidence[step] for step in done}
    )


def with_plan(state: RunState, event: PlanProposed) -> RunState:
    """Return the state with the agent's plan.

    It replaces the plan before it, except for completed steps.
    """
    state = _with_completed(state, event.completed)
    current = event.current or state.memory.current_step
    if current in event.completed:
        current = f"round-{state.round}" if state.round else None
    pending = [
        step
        for step in event.pending
        if step != current and step not in event.completed
    ]
    pending += filter(is_runner_step, state.memory.pending_steps)
    return state.with_memory(
        current_step=current,
        pending_steps=tuple(dict.fromkeys(pending)),
        proposed_stop=event.stop_reason,
    )


def remaining_steps(state: RunState) -> tuple[str, ...]:
    """Return the pending steps: those of the agent's plan, then the runner's.

    None are left after completion.
    """
    memory = state.memory
    if state.phase is Phase.ENDED:
        return () if memory.stop_reason == "success" else memory.pending_steps
    steps = [step for step in memory.pending_steps if not is_runner_step(step)]
    steps += _upcoming(state)
    return tuple(step for step in dict.fromkeys(steps) if step != memory.current_step)


def _upcoming(state: RunState) -> list[str]:
    """Return the runner's next steps, until the goal is proven or a round starts."""
    plan = state.plan
    next_round = [f"round-{state.round + 1}"]
    audit = [f"audit-{state.round}"] if plan.has_judge else []
    match state.phase:
        case Phase.READY if plan.takes_baseline:
            return ["baseline", *next_round]
        case Phase.READY:
            return next_round
        case Phase.BASELINED:
            is_green = state.baseline is not None and state.baseline.standing == "green"
            return audit if is_green and not plan.needs_round else next_round
        case Phase.WORKING | Phase.WORKED:
            return [*_checks(state), *audit]
        case Phase.VALIDATED if not state.decided_by_validators:
            return audit
        case Phase.VALIDATED | Phase.JUDGED:
            is_complete = state.verdict is not None and state.verdict.complete
            return [] if is_complete else next_round
        case Phase.CONFIRMED if not state.confirmed:
            return next_round
        case _:
            return []


def _checks(state: RunState) -> list[str]:
    """Return the steps between the agent's turn and the audit."""
    steps = []
    if state.plan.is_scored and state.critique is None:
        steps.append(f"critique-{state.round}")
    if state.plan.validators:
        steps.append(f"validate-{state.round}")
    return steps
