"""What a tool is, and the tools `plan`, `report_blocked` and `ask`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goalrunner.core.agent_ports import ProposedPlan
from goalrunner.llm import ToolSpec

Notice = Literal["blocked", "question"]
"""What a tool tells the run: the agent cannot go on, or asks a person."""

Scratch = Callable[[str], Path]
"""A fresh path in the run's own folder; the argument is a suffix."""


class ToolError(Exception):
    """A call that cannot be done as asked. Its text goes back to the model: what is wrong, and what would do.

    `short` is the same for people, in a few words beside the path.
    """

    def __init__(self, text: str, short: str = "") -> None:
        super().__init__(text)
        self.short = short


class Arguments(BaseModel):
    """What a model may pass to a tool. Nothing is coerced and nothing unknown is ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Effect:
    """What a call would do, for whoever must allow it. `text` is the command line or the path, `preview` a diff."""

    kind: Literal["shell", "write"]
    text: str
    preview: str = ""


def preview(diff: Callable[[], str]) -> str:
    """The diff for whoever must allow a call; why there is none, where the call cannot be done as things are now."""
    try:
        return diff()
    except (ToolError, OSError) as error:
        return f"as things are now it cannot be done: {error}\n"


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True)
class Answer:
    """What a tool found or did: facts of the runner, the whole output, one short line for people, and seconds."""

    facts: tuple[str, ...]
    output: bytes | Path
    summary: str
    duration: float = 0.0
    plan: ProposedPlan | None = None


class Tool(ABC, Generic[A]):
    """One tool: a name, a description and a schema for the model, and the work."""

    name: ClassVar[str]
    description: ClassVar[str]
    arguments: type[A]
    writes: ClassVar[bool] = True
    """Whether a call may change the workspace."""
    notice: ClassVar[Notice | None] = None
    """What a call tells the run besides its result."""

    def path(self, arguments: A) -> str | None:
        """The only path in the workspace that a call depends on, relative to it; None: it may depend on anything."""
        return None

    def effect(self, arguments: A) -> Effect | None:
        """What a call would do; None where it has no effect."""
        return None

    @abstractmethod
    def command(self, arguments: A) -> str:
        """The command line or path under which the call is recorded."""

    @abstractmethod
    async def run(self, arguments: A, scratch: Scratch) -> Answer:
        """Do it. Raises ToolError or OSError when it cannot be done."""

    def spec(self) -> ToolSpec:
        """The tool as a model is told of it."""
        return ToolSpec(self.name, self.description, _plain_schema(self.arguments.model_json_schema()))

    def parse(self, value: dict[str, Any]) -> A:
        """The arguments, checked. Raises ToolError that names every one that is wrong."""
        try:
            return self.arguments.model_validate(value)
        except ValidationError as error:
            raise ToolError(self._complaint(error)) from error

    def _complaint(self, error: ValidationError) -> str:
        lines = [f"{self.name} was not run, its arguments do not fit:"]
        for problem in error.errors(include_url=False, include_context=False):
            name = str(problem["loc"][0])[:40] if problem["loc"] else "arguments"
            match problem["type"]:
                case "missing":
                    lines.append(f'- "{name}" is missing')
                case "extra_forbidden":
                    lines.append(f'- "{name}" is unknown')
                case _:
                    given = type(problem["input"]).__name__
                    lines.append(f'- "{name}": {problem["msg"]} (given: {given})')
        return "\n".join([*lines, f"Valid arguments: {self._signature()}"])

    def _signature(self) -> str:
        fields = self.arguments.model_fields.items()
        return ", ".join(name if field.is_required() else f"{name} (optional)" for name, field in fields)


def _plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the titles and null defaults that pydantic adds: they cost tokens and say nothing."""
    properties = {
        name: {key: value for key, value in field.items() if key != "title" and (key, value) != ("default", None)}
        for name, field in schema["properties"].items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": schema.get("required", []),
        "additionalProperties": False,
    }


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
