"""The records of OpenHands' goal package, with the fields that it gives them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

import goalrunner
from goalrunner import GoalVerdict
from goalrunner.core.outcome import StopReason

GoalStatusName = Literal[
    "running", "complete", "capped", "interrupted", "blocked", "cancelled", "failed"
]
"""The state of a run.

OpenHands has the first four; a run ends with the last three as well.
"""

GoalStopReason = StopReason
"""Which rule ended a run."""


class GoalOutcome(goalrunner.GoalOutcome):
    """The result of a run.

    `status`, `iterations` and `verdict` are those of OpenHands, and can be given alone.
    The others are those of `goalrunner.GoalOutcome`.

    >>> from goalrunner.adapters.openhands import run_goal
    >>> run_goal(conversation, "Make the tests pass.", llm).status  # doctest: +SKIP
    'complete'
    """

    run_id: str = ""
    objective: str = ""
    verdict: GoalVerdict
    """The last one. If no round was decided, it is not complete, and says why."""


class GoalStatus(BaseModel):
    """The state of a run, for a display.

    >>> from goalrunner.adapters.openhands import GoalStatus
    >>> def on_status(status: GoalStatus) -> None:
    ...     print(status)
    """

    active: bool
    """Whether the run goes on."""
    status: GoalStatusName
    iteration: int = Field(ge=0)
    """How many rounds were checked."""
    max_iterations: int = Field(ge=1)
    objective: str
    verdict: GoalVerdict | None = None
    """The last verdict; set once the run has ended."""


class GoalContinue(goalrunner.GoalContinue):
    """Send `followup` to the agent as a user message.

    >>> from goalrunner.adapters.openhands import GoalContinue
    >>> step = controller.on_run_finished(conversation)  # doctest: +SKIP
    >>> if isinstance(step, GoalContinue):  # doctest: +SKIP
    ...     conversation.send_message(step.followup)
    """

    verdict: GoalVerdict
    """The verdict on the round that was just checked."""


class GoalDone(goalrunner.GoalDone):
    """The run ended with `outcome`.

    >>> from goalrunner.adapters.openhands import GoalDone
    >>> step = controller.on_run_finished(conversation)  # doctest: +SKIP
    >>> if isinstance(step, GoalDone):  # doctest: +SKIP
    ...     print(step.outcome.status)
    """

    outcome: GoalOutcome


GoalStep = GoalContinue | GoalDone
"""What `on_run_finished` returns."""


def openhands_outcome(outcome: goalrunner.GoalOutcome) -> GoalOutcome:
    """Return an outcome with a verdict in any case."""
    fields = {name: getattr(outcome, name) for name in type(outcome).model_fields}
    if outcome.verdict is None:
        missing = outcome.message or "no round was checked"
        fields["verdict"] = GoalVerdict(
            score=0.0, complete=False, missing=missing, source="fallback"
        )
    return GoalOutcome.model_construct(**fields)


def openhands_step(
    step: goalrunner.GoalContinue | goalrunner.GoalDone,
) -> GoalContinue | GoalDone:
    """Return a step of the controller as a record of OpenHands."""
    if isinstance(step, goalrunner.GoalDone):
        return GoalDone(outcome=openhands_outcome(step.outcome))
    verdict = step.verdict
    if verdict is None:
        verdict = GoalVerdict(score=0.0, complete=False, missing=step.followup)
    return GoalContinue(followup=step.followup, verdict=verdict)
