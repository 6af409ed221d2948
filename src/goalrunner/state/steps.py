"""Which steps are under way, done and still to come, those of the runner and those of the agent's plan. Pure.

A step is completed by an event that ends it, with the observation that shows it; one that was cut is not. What is still
to come follows from the phase, so that a state always says what remains.
"""

from __future__ import annotations

import re

from goalrunner.model.verdict import GoalVerdict
from goalrunner.state.changes import with_fields, with_memory
from goalrunner.state.run_state import KEPT, Phase, RunState

_RUNNERS = re.compile(r"baseline|(?:round|validate|audit|confirm|prove)-.*")
_OBSERVATION = re.compile(r"o([1-9][0-9]{0,9})")


def is_runners(step: str) -> bool:
    """Whether a step is one of the runner's own; the agent's plan may not name those."""
    return _RUNNERS.fullmatch(step) is not None


def begun(state: RunState, step: str) -> RunState:
    """A step of the runner begins. One that was open before it was cut, and is not done."""
    return with_fields(with_memory(_returned(state), current_step=step), seen="")


def ended(state: RunState, evidence: str = "") -> RunState:
    """The runner's step at hand is done. `evidence` is an observation; else the newest of the step, else the event itself."""
    if state.memory.current_step is None:
        return state
    current = state.memory.current_step
    step = current if is_runners(current) else f"round-{state.round}"
    shown = evidence or state.seen or f"e{state.memory.version + 1}"
    return completed(with_memory(_returned(state), current_step=None), {step: shown})


def completed(state: RunState, steps: dict[str, str]) -> RunState:
    """Steps are done, each with what shows it. The newest are kept."""
    memory = state.memory
    before = tuple(step for step in memory.completed_steps if step not in steps)
    done = (*before, *steps)[-KEPT:]
    evidence = {**memory.step_evidence, **steps}
    return with_memory(state, completed_steps=done, step_evidence={step: evidence[step] for step in done})


def remaining(state: RunState) -> tuple[str, ...]:
    """The steps that are still to come: those of the agent's plan, then the runner's. None after completion."""
    if state.phase is Phase.ENDED:
        return () if state.memory.stop_reason == "success" else state.memory.pending_steps
    planned = (step for step in state.memory.pending_steps if not is_runners(step))
    current = state.memory.current_step
    return tuple(dict.fromkeys(step for step in (*planned, *_upcoming(state)) if step != current))


def audit_evidence(state: RunState, verdict: GoalVerdict) -> str:
    """What shows an audit: the first observation that it cites, else the newest that the judge was shown."""
    for criterion in verdict.criteria:
        for citation in criterion.evidence:
            found = _OBSERVATION.fullmatch(citation.observation)
            if found and int(found[1]) <= state.observations:
                return citation.observation
    return state.memory.evidence_refs[-1] if state.memory.evidence_refs else ""


def _returned(state: RunState) -> RunState:
    """The agent's own step goes back to what is pending: the end of a turn does not show that it is done."""
    current = state.memory.current_step
    if current is None or is_runners(current):
        return state
    return with_memory(state, pending_steps=(current, *state.memory.pending_steps))


def _upcoming(state: RunState) -> list[str]:
    """What the runner itself has before it, until the goal is proven or the next round begins."""
    number, plan = state.round, state.plan
    again = [f"round-{number + 1}"]
    audit = [f"audit-{number}"] if plan.has_judge else []
    match state.phase:
        case Phase.READY:
            return [*(["baseline"] if plan.takes_baseline else []), *again]
        case Phase.BASELINED:
            green = state.baseline is not None and state.baseline.standing == "green"
            return audit if green else again
        case Phase.WORKING | Phase.WORKED:
            return [*([f"validate-{number}"] if plan.validators else []), *audit]
        case Phase.VALIDATED if not state.decided_by_validators:
            return audit
        case Phase.VALIDATED | Phase.JUDGED:
            return [] if state.verdict is not None and state.verdict.complete else again
        case Phase.CONFIRMED:
            return [] if state.confirmed else again
        case _:
            return []
