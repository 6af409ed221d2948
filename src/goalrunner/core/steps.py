"""The steps that `decide` can return, and which steps of an agent's plan count as done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from goalrunner.core.agent_ports import ProposedPlan
from goalrunner.core.events import PlanProposed, PromptKind, RunEnded
from goalrunner.core.observation import Observation
from goalrunner.core.progress import is_runners
from goalrunner.core.run_state import Interruption


@dataclass(frozen=True)
class TakeBaseline:
    """Run the validators once before the agent works."""


@dataclass(frozen=True)
class Brief:
    """The content of a prompt, before it is rendered."""

    kind: PromptKind
    round: int
    feedback: str | None = None
    """Red output or the judge's `missing`, verbatim; None if there is none."""
    interruption: Interruption | None = None
    """What happened while the run was interrupted, if anything."""


@dataclass(frozen=True)
class RunRound:
    """Let the agent work."""

    prompt: Brief


@dataclass(frozen=True)
class Validate:
    """Run every validator once."""

    round: int


@dataclass(frozen=True)
class Audit:
    """Ask the judge."""

    round: int


@dataclass(frozen=True)
class Confirm:
    """Ask for a second, independent opinion on a claim that the goal is blocked."""

    claim: str


@dataclass(frozen=True)
class AskApproval:
    """Let a person decide whether the run may end complete, or which versions of the checks count."""

    action: str
    rule: str
    kind: Literal["complete", "checks"] = "complete"


Step = TakeBaseline | RunRound | Validate | Audit | Confirm | AskApproval | RunEnded
"""The next thing to do."""


Find = Callable[[str], Observation | None]
"""Return the observation of that id, or None."""


def settle_plan(plan: ProposedPlan, find: Find) -> tuple[PlanProposed, str]:
    """Return the event with the accepted part of a plan, and the reply for the agent.

    The reply contains none of the agent's words, because it becomes an observation that a judge may quote.
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
