"""What of an agent's plan is believed. Pure: a step is done when a result shows it, and never because the agent says so."""

from __future__ import annotations

from collections.abc import Callable

from goalrunner.events import PlanProposed
from goalrunner.model.observation import Observation
from goalrunner.ports import ProposedPlan
from goalrunner.state.steps import is_runners

Find = Callable[[str], Observation | None]
"""The observation of that id; None where there is none."""


def settle_plan(plan: ProposedPlan, find: Find) -> tuple[PlanProposed, str]:
    """The event that keeps what is believed of a plan, and what the agent is told.

    What it is told holds none of its own words: they would stand in an observation that a judge may quote.
    """
    believed: dict[str, str] = {}
    refused: list[str] = []
    told: list[str] = []
    for number, (step, shown) in enumerate(plan.completed.items(), start=1):
        why = _refusal(step, shown, find)
        if why:
            refused.append(step)
            told.append(f"- completed step {number} is not believed: {why}")
        else:
            believed[step] = shown
    own = (*plan.pending, plan.current)
    if any(map(is_runners, own)):
        told.append("- names such as round-1 and audit-1 are the runner's own steps; they are left out")
    event = PlanProposed(
        current="" if is_runners(plan.current) else plan.current,
        pending=tuple(step for step in plan.pending if not is_runners(step)),
        completed=believed,
        refused=tuple(refused),
        stop_reason=plan.stop_reason,
    )
    head = f"The plan is kept: {len(believed)} completed, {len(event.pending)} pending."
    return event, "\n".join([head, *told]) + "\n"


def _refusal(step: str, shown: str, find: Find) -> str:
    if is_runners(step):
        return "its name is one of the runner's own"
    observation = find(shown)
    if observation is None:
        return f"there is no result {shown}"
    if not observation.shows:
        return f"{shown} shows nothing that was done"
    return ""
