"""The tool `plan`: which steps the agent sees. Owns its arguments; what of it is believed is decided elsewhere."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from goalrunner.agents.tools.tool import Answer, Arguments, Scratch, Tool
from goalrunner.ports import ProposedPlan

_MOST = 50

Step = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
ObservationId = Annotated[str, Field(pattern=r"^o[1-9][0-9]{0,9}$")]


class PlanArguments(Arguments):
    """What `plan` takes."""

    current: str = Field(default="", max_length=200, description="The step that you work on now.")
    pending: Annotated[list[Step], Field(max_length=_MOST)] = Field(
        default_factory=list, description="The steps still to come, in order."
    )
    completed: Annotated[dict[Step, ObservationId], Field(max_length=_MOST)] = Field(
        default_factory=dict,
        description='Steps that are done, each with the id of the result that shows it: {"find the cause": "o3"}.',
    )
    stop_reason: str = Field(default="", max_length=500, description="Why you may stop, where you think so.")


class PlanTool(Tool[PlanArguments]):
    """A proposal: the runner keeps it, and believes no step done that no result shows."""

    name = "plan"
    arguments = PlanArguments
    description = (
        "Say which steps there are; each call replaces the plan before it. A completed step names the result that shows it, "
        "by the id that the result begins with."
    )
    writes = False

    def command(self, arguments: PlanArguments) -> str:
        """The step at hand."""
        return arguments.current

    async def run(self, arguments: PlanArguments, scratch: Scratch) -> Answer:
        """Hand it over; the answer is given by whoever keeps it."""
        plan = ProposedPlan(
            current=_line(arguments.current),
            pending=tuple(map(_line, arguments.pending)),
            completed={_line(step): shown for step, shown in arguments.completed.items()},
            stop_reason=_line(arguments.stop_reason),
        )
        return Answer(("noted",), b"The plan is noted.\n", "noted", plan=plan)


def _line(text: str) -> str:
    return " ".join(text.split())
