"""The tools `report_blocked` and `ask`: what an agent says when it cannot go on. Own no decision; both are only noted."""

from __future__ import annotations

from pydantic import Field

from goalrunner.agents.tools.tool import Answer, Arguments, Scratch, Tool


class ReportBlockedArguments(Arguments):
    """What `report_blocked` takes."""

    reason: str = Field(
        description="What makes the objective impossible, or what only a person can do, and how you know."
    )


class ReportBlockedTool(Tool[ReportBlockedArguments]):
    """A claim that the objective cannot be reached; it is looked into, and ends nothing by itself."""

    name = "report_blocked"
    arguments = ReportBlockedArguments
    description = "Say that the objective cannot be reached as it stands. It is looked into by somebody else."
    writes = False
    notice = "blocked"

    def command(self, arguments: ReportBlockedArguments) -> str:
        """The reason."""
        return arguments.reason

    async def run(self, arguments: ReportBlockedArguments, scratch: Scratch) -> Answer:
        """Note it."""
        return Answer(("noted",), b"It is noted and will be looked into. Finish your turn.\n", "noted")


class AskArguments(Arguments):
    """What `ask` takes."""

    question: str = Field(description="One question that only a person can answer.")


class AskTool(Tool[AskArguments]):
    """A question to a person; it is kept as an open question of the run."""

    name = "ask"
    arguments = AskArguments
    description = "Ask a person for a fact that you need and cannot find out. Nobody may be there to answer."
    writes = False
    notice = "question"

    def command(self, arguments: AskArguments) -> str:
        """The question."""
        return arguments.question

    async def run(self, arguments: AskArguments, scratch: Scratch) -> Answer:
        """Note it."""
        text = b"The question is kept. Nobody answers now: go on with what you can do without the answer.\n"
        return Answer(("noted",), text, "noted")
