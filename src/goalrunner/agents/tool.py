"""The base class of tools, the tool `shell`, and the tools `plan`, `report_blocked` and `ask`, which only report."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goalrunner.core.activity import running
from goalrunner.core.errors import one_line
from goalrunner.core.events import PlanProposed
from goalrunner.core.ports import Completion, Launcher
from goalrunner.llm import ToolSpec
from goalrunner.system.launcher import SHELL

Scratch = Callable[[str], Path]
"""Returns a new path in the run's folder; the argument is a suffix."""


class ToolError(Exception):
    """A call that cannot be done. The model gets the whole text; its summary ends at the first semicolon."""


@dataclass(frozen=True)
class Effect:
    """The action that a person approves. `text` is the command line or the path, `preview` a diff."""

    kind: Literal["shell", "write"]
    text: str
    preview: str = ""


@dataclass(frozen=True)
class ToolOutput:
    """The result of a tool: facts, the whole output, a summary of a few words, and seconds."""

    facts: tuple[str, ...]
    output: bytes | Path
    summary: str
    duration: float = 0.0
    plan: PlanProposed | None = None


@dataclass(frozen=True)
class Place:
    """Where tools work. `env` is the whole environment of commands; `secret` is a file that is never opened."""

    workspace: Path
    launcher: Launcher
    env: Mapping[str, str]
    secret: Path | None = None


class Tool(BaseModel):
    """One call of a tool: the fields are its arguments. Nothing is coerced, and unknown arguments are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: ClassVar[str]
    description: ClassVar[str]
    writes: ClassVar[bool] = True
    """Whether a call may change the workspace."""
    notice: ClassVar[Literal["blocked", "question"] | None] = None
    """The kind of notice that a call gives to the run: the agent cannot go on, or asks a person."""

    def shown(self) -> str:
        """Return the text under which the call is recorded: its first argument."""
        return str(next(value for _, value in self))

    def file(self, place: Place) -> str | None:
        """Return the only path of the workspace that the call depends on; None if it may depend on any."""
        return None

    def effect(self, place: Place) -> Effect | None:
        """Return what the call would do; None if it has no effect."""
        return None

    async def run(self, place: Place, scratch: Scratch) -> ToolOutput:
        """Do the work. Raise ToolError or OSError if that fails."""
        raise NotImplementedError

    @classmethod
    def spec(cls) -> ToolSpec:
        """Return the specification for a model, without titles, which only cost tokens."""
        schema = cls.model_json_schema()
        properties = {
            name: {key: value for key, value in field.items() if key != "title"}
            for name, field in schema["properties"].items()
        }
        required = schema.get("required", [])
        plain = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        return ToolSpec(cls.name, cls.description, plain)

    @classmethod
    def explain(cls, error: ValidationError) -> str:
        """Return what is wrong with the arguments, one line for each."""
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        wrong = [f'- "{problem["loc"][0]}": {problem["msg"]}'[:200] for problem in problems]
        fields = cls.model_fields.items()
        valid = ", ".join(name if field.is_required() else f"{name} (optional)" for name, field in fields)
        return "\n".join(["the arguments do not fit:", *wrong, f"Valid arguments of {cls.name}: {valid}"])


LONGEST_TIMEOUT = 1_800.0
"""Seconds; the longest timeout of a command."""
_NOT_IN_A_NAME = re.compile(r"[^\w.:@/+-]+")


class Shell(Tool):
    """Runs a command line in the workspace. Its whole output is kept, and all its processes end with it."""

    name = "shell"
    description = (
        "Run a command line with sh -c in the workspace. You get the exit code, then stdout and stderr as one text. There "
        "is no terminal and no input. Each call is a new shell: cd and variables do not last. Processes that are still "
        "running when the command ends are ended with it, so start and use a server within one command."
    )
    command: str = Field(min_length=1, description="Command line for sh -c, run in the workspace.")
    timeout: float = Field(default=120, gt=0, description=f"Seconds until it is ended, at most {LONGEST_TIMEOUT:g}.")

    def effect(self, place: Place) -> Effect:
        return Effect("shell", self.command)

    async def run(self, place: Place, scratch: Scratch) -> ToolOutput:
        line = self.command
        timeout = min(self.timeout, LONGEST_TIMEOUT)
        with running(self.name, line, scratch(".out")) as out:
            completion = await place.launcher.launch(
                [SHELL, "-c", line], cwd=place.workspace, env=place.env, output=out, timeout=timeout
            )
        facts = [_ending(completion, timeout)]
        if number := len(completion.survivors):
            # A program chooses its name, which must not look like another fact.
            names = ", ".join(_NOT_IN_A_NAME.sub("_", name) or "_" for name in completion.survivors)
            facts.append(f"ended {number} {'process' if number == 1 else 'processes'} left behind: {names}")
        # A program that could not be started has no output file.
        output: bytes | Path = completion.output if completion.output.exists() else b""
        return ToolOutput(tuple(facts), output, summary=facts[0], duration=completion.duration)


def _ending(completion: Completion, timeout: float) -> str:
    if completion.timed_out:
        return f"timed out after {timeout:g} s"
    if completion.exit_code is None:
        return completion.error or "ended by a signal"
    code = f"exit {completion.exit_code}"
    return f"{code}: {completion.error}" if completion.error else code


class NoteTool(Tool):
    """A tool whose argument is only recorded."""

    writes = False
    reply: ClassVar[bytes]

    async def run(self, place: Place, scratch: Scratch) -> ToolOutput:
        return ToolOutput(("noted",), self.reply, "noted")


class ReportBlocked(NoteTool):
    """A claim that the objective cannot be reached. It is checked, and does not end the turn."""

    name = "report_blocked"
    description = "Report that the objective cannot be reached as it stands. The report is checked."
    notice = "blocked"
    reply = b"It is noted and will be checked. Finish your turn.\n"
    reason: str = Field(
        description="What makes the objective impossible, or what only a person can do, and how you know."
    )


class Ask(NoteTool):
    """A question to a person, which is kept as an open question of the run."""

    name = "ask"
    description = "Ask a person for a fact that you need and cannot find out. There may be no answer."
    notice = "question"
    reply = b"The question is kept. There is no answer now: go on with what you can do without the answer.\n"
    question: str = Field(description="One question that only a person can answer.")


_MOST = 50

Step = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
ObservationId = Annotated[str, Field(pattern=r"^o[1-9][0-9]{0,9}$")]


class Plan(NoteTool):
    """A plan. A step counts as done only if a result shows it."""

    name = "plan"
    description = (
        "Say which steps there are; each call replaces the plan before it. A completed step names the result that shows it, "
        "by the id that the result begins with."
    )
    current: str = Field(default="", max_length=200, description="The step that you work on now.")
    pending: Annotated[list[Step], Field(max_length=_MOST)] = Field(
        default_factory=list, description="The steps still to come, in order."
    )
    completed: Annotated[dict[Step, ObservationId], Field(max_length=_MOST)] = Field(
        default_factory=dict,
        description='Steps that are done, each with the id of the result that shows it: {"find the cause": "o3"}.',
    )
    stop_reason: str = Field(default="", max_length=500, description="Why you may stop, where you think so.")

    async def run(self, place: Place, scratch: Scratch) -> ToolOutput:
        plan = PlanProposed(
            current=one_line(self.current),
            pending=tuple(map(one_line, self.pending)),
            completed={one_line(step): shown for step, shown in self.completed.items()},
            stop_reason=one_line(self.stop_reason, 500),
        )
        return ToolOutput(("noted",), b"The plan is noted.\n", "noted", plan=plan)
