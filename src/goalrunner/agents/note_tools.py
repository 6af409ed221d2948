"""The tools of the built-in agent whose arguments are only recorded."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from goalrunner.agents.tool import FilePlace, Scratch, Tool, ToolOutput
from goalrunner.core.errors import one_line
from goalrunner.core.events import PlanProposed


class NoteTool(Tool):
    """A tool whose argument is only recorded."""

    writes = False
    reply: ClassVar[bytes]

    async def run(self, place: FilePlace, scratch: Scratch) -> ToolOutput:
        return ToolOutput(("noted",), self.reply, "noted")


class ReportBlocked(NoteTool):
    """A claim that the objective cannot be reached.

    It is checked, and does not end the turn.
    """

    name = "report_blocked"
    description = (
        "Report that the objective cannot be reached as it stands. "
        "The report is checked."
    )
    notice = "blocked"
    reply = b"It is noted and will be checked. Finish your turn.\n"
    reason: str = Field(
        description=(
            "What makes the objective impossible, or what only a person can do, "
            "and how you know."
        )
    )


class AskTool(NoteTool):
    """A question to a person, which becomes an open question of the run."""

    name = "ask"
    description = (
        "Ask a person for a fact that you need and cannot find out. "
        "There may be no answer."
    )
    notice = "question"
    reply = (
        b"The question is kept. There is no answer now: "
        b"go on with what you can do without the answer.\n"
    )
    question: str = Field(description="One question that only a person can answer.")


# Steps of each kind. A plan is a part of every later prompt, so it stays short.
_MOST = 50

Step = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
ObservationId = Annotated[str, Field(pattern=r"^o[1-9][0-9]{0,9}$")]


class PlanTool(NoteTool):
    """A plan. A step counts as done only if a result shows it."""

    name = "plan"
    description = (
        "Say which steps there are; each call replaces the plan before it. A completed "
        "step names the result that shows it, by the id that the result begins with."
    )
    current: str = Field(
        default="", max_length=200, description="The step that you work on now."
    )
    pending: Annotated[list[Step], Field(max_length=_MOST)] = Field(
        default_factory=list, description="The steps still to come, in order."
    )
    completed: Annotated[dict[Step, ObservationId], Field(max_length=_MOST)] = Field(
        default_factory=dict,
        description=(
            "Steps that are done, each with the id of the result that shows it: "
            '{"find the cause": "o3"}.'
        ),
    )
    stop_reason: str = Field(
        default="", max_length=500, description="Why you may stop, where you think so."
    )

    async def run(self, place: FilePlace, scratch: Scratch) -> ToolOutput:
        # Steps are shown to people in one line each.
        completed = {
            one_line(step): shown_by for step, shown_by in self.completed.items()
        }
        plan = PlanProposed(
            current=one_line(self.current),
            pending=tuple(map(one_line, self.pending)),
            completed=completed,
            stop_reason=one_line(self.stop_reason, 500),
        )
        return ToolOutput(("noted",), b"The plan is noted.\n", "noted", plan=plan)
