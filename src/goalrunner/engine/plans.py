"""The agent's plan: which completed steps are accepted."""

from __future__ import annotations

from collections.abc import Callable

from goalrunner.core.events import PlanProposed
from goalrunner.core.observation import Observation
from goalrunner.core.steps import is_runner_step

Find = Callable[[str], Observation | None]
"""Returns the observation of an id, or None."""


def settle_plan(plan: PlanProposed, find: Find) -> tuple[PlanProposed, str]:
    """Return the accepted part of an agent's plan, and the reply for the agent.

    The reply contains none of the agent's words, because it becomes an observation that
    a judge may quote.
    """
    lines: list[str] = []
    accepted: dict[str, str] = {}
    refused: list[str] = []
    for number, (step, evidence) in enumerate(plan.completed.items(), start=1):
        refusal = _plan_refusal(step, evidence, find)
        if refusal:
            refused.append(step)
            lines.append(f"- completed step {number} is not accepted: {refusal}")
        else:
            accepted[step] = evidence
    if any(map(is_runner_step, (*plan.pending, plan.current))):
        lines.append(
            "- names such as round-1 and audit-1 are the runner's own steps;"
            " they are left out"
        )
    pending = tuple(step for step in plan.pending if not is_runner_step(step))
    update = {
        "current": "" if is_runner_step(plan.current) else plan.current,
        "pending": pending,
        "completed": accepted,
        "refused": tuple(refused),
    }
    head = f"The plan is kept: {len(accepted)} completed, {len(pending)} pending."
    reply = "\n".join([head, *lines]) + "\n"
    return plan.model_copy(update=update), reply


def _plan_refusal(step: str, evidence: str, find: Find) -> str:
    """Return why a completed step is not accepted; empty if it is."""
    if is_runner_step(step):
        return "its name is one of the runner's own"
    observation = find(evidence)
    if observation is None:
        return f"there is no result {evidence}"
    return "" if observation.shows else f"{evidence} shows nothing that was done"
