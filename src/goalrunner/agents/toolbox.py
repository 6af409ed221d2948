"""The tools of the built-in agent: `shell`, the tools that only report, and the calls of a model with their answers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, ValidationError

from goalrunner.agents.file_tools import (
    EditFile,
    FilePlace,
    ReadFile,
    Scratch,
    Tool,
    ToolError,
    ToolOutput,
    WriteFile,
)
from goalrunner.core.activity import running
from goalrunner.core.agent_ports import Recorded, ToolResult
from goalrunner.core.errors import one_line, shortened
from goalrunner.core.events import PlanProposed
from goalrunner.core.ports import Completion, Launcher
from goalrunner.llm import ToolCall, ToolSpec
from goalrunner.system.launcher import SHELL

LONGEST_TIMEOUT = 1_800.0
"""Seconds; the longest timeout of a command."""
_NOT_IN_A_NAME = re.compile(r"[^\w.:@/+-]+")


class Shell(Tool):
    """Runs a command line in the workspace. Its whole output is kept, and all its processes end with it."""

    name = "shell"
    kind = "shell"
    description = (
        "Run a command line with sh -c in the workspace. You get the exit code, then stdout and stderr as one text. There "
        "is no terminal and no input. Each call is a new shell: cd and variables do not last. Processes that are still "
        "running when the command ends are ended with it, so start and use a server within one command."
    )
    command: str = Field(
        min_length=1, description="Command line for sh -c, run in the workspace."
    )
    timeout: float = Field(
        default=120,
        gt=0,
        description=f"Seconds until it is ended, at most {LONGEST_TIMEOUT:g}.",
    )

    async def run(self, place: FilePlace, scratch: Scratch) -> ToolOutput:
        line = self.command
        timeout = min(self.timeout, LONGEST_TIMEOUT)
        with running(self.name, line, scratch(".out")) as out:
            completion = await place.launcher.launch(
                [SHELL, "-c", line],
                cwd=place.workspace,
                env=place.env,
                output=out,
                timeout=timeout,
            )
        facts = [_ending(completion, timeout)]
        if number := len(completion.survivors):
            # A program chooses its name, which must not look like another fact.
            names = ", ".join(
                _NOT_IN_A_NAME.sub("_", name) or "_" for name in completion.survivors
            )
            facts.append(
                f"ended {number} {'process' if number == 1 else 'processes'} left behind: {names}"
            )
        # A program that could not be started has no output file.
        output: bytes | Path = completion.output if completion.output.exists() else b""
        return ToolOutput(
            tuple(facts), output, summary=facts[0], duration=completion.duration
        )


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

    async def run(self, place: FilePlace, scratch: Scratch) -> ToolOutput:
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


class AskTool(NoteTool):
    """A question to a person, which is kept as an open question of the run."""

    name = "ask"
    description = "Ask a person for a fact that you need and cannot find out. There may be no answer."
    notice = "question"
    reply = b"The question is kept. There is no answer now: go on with what you can do without the answer.\n"
    question: str = Field(description="One question that only a person can answer.")


_MOST = 50

Step = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
ObservationId = Annotated[str, Field(pattern=r"^o[1-9][0-9]{0,9}$")]


class PlanTool(NoteTool):
    """A plan. A step counts as done only if a result shows it."""

    name = "plan"
    description = (
        "Say which steps there are; each call replaces the plan before it. A completed step names the result that shows it, "
        "by the id that the result begins with."
    )
    current: str = Field(
        default="", max_length=200, description="The step that you work on now."
    )
    pending: Annotated[list[Step], Field(max_length=_MOST)] = Field(
        default_factory=list, description="The steps still to come, in order."
    )
    completed: Annotated[dict[Step, ObservationId], Field(max_length=_MOST)] = Field(
        default_factory=dict,
        description='Steps that are done, each with the id of the result that shows it: {"find the cause": "o3"}.',
    )
    stop_reason: str = Field(
        default="", max_length=500, description="Why you may stop, where you think so."
    )

    async def run(self, place: FilePlace, scratch: Scratch) -> ToolOutput:
        plan = PlanProposed(
            current=one_line(self.current),
            pending=tuple(map(one_line, self.pending)),
            completed={one_line(step): shown for step, shown in self.completed.items()},
            stop_reason=one_line(self.stop_reason, 500),
        )
        return ToolOutput(("noted",), b"The plan is noted.\n", "noted", plan=plan)


UNKNOWN_TOOL = "unknown_tool"
"""The recorded tool of a call whose tool does not exist."""
_LONGEST_REASON = 100


class Described(NamedTuple):
    """A call before it is run: its tool, the command or path, and the action that needs approval, with a diff."""

    tool: str = UNKNOWN_TOOL
    text: str = ""
    kind: Literal["shell", "write"] | None = None
    preview: str = ""


class Toolbox:
    """The tools for one workspace: those in `names`, by default all, and the ones that only report.

    `env` is the whole environment of the commands, without the providers' keys. `secret` is the real path of a file
    that the tools do not open.
    """

    def __init__(
        self,
        workspace: Path,
        launcher: Launcher,
        env: Mapping[str, str],
        *,
        secret: Path | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.workspace = Path(os.path.realpath(workspace))
        self._place = FilePlace(self.workspace, launcher, dict(env), secret)
        chosen = [
            tool
            for tool in (Shell, ReadFile, WriteFile, EditFile)
            if names is None or tool.name in names
        ]
        self._tools: dict[str, type[Tool]] = {
            tool.name: tool for tool in (*chosen, ReportBlocked, AskTool, PlanTool)
        }
        self.specs = tuple(map(_spec, self._tools.values()))
        """The specifications of the tools for a model."""

    def describe(self, call: ToolCall) -> Described:
        """Return the description of a call. An invalid call has no effect, and its arguments are the text."""
        known = call.name in self._tools
        name = call.name if known else UNKNOWN_TOOL
        try:
            tool = self._read(call)
        except ToolError:
            return Described(
                name, call.arguments if known else f"{call.name} {call.arguments}"
            )
        return Described(name, tool.shown(), tool.kind, tool.preview(self._place))

    async def run(self, call: ToolCall, scratch: Scratch) -> ToolResult:
        """Run a call. A failure is a result with the fact "error", never an exception."""
        command = one_line(call.arguments)
        try:
            tool = self._read(call)
            command = tool.shown()
            file = tool.file(self._place)
            answer = await tool.run(self._place, scratch)
        except ToolError as error:
            name = call.name if call.name in self._tools else UNKNOWN_TOOL
            return refused(call, name, command, str(error))
        except OSError as error:
            return refused(
                call,
                call.name,
                command,
                f"{call.name} failed: {error.strerror or error}",
            )
        return ToolResult(
            tool_call_id=call.id,
            tool=call.name,
            command=command,
            path=file,
            writes=tool.writes,
            notice=tool.notice,
            **vars(answer),
        )

    def _read(self, call: ToolCall) -> Tool:
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(
                f"there is no tool of that name; the tools are {', '.join(self._tools)}"
            )
        arguments = read_arguments(call.arguments)
        try:
            return tool.model_validate(arguments)
        except ValidationError as error:
            problems = error.errors(
                include_url=False, include_context=False, include_input=False
            )
            wrong = [
                f'- "{problem["loc"][0]}": {problem["msg"]}'[:200]
                for problem in problems
            ]
            fields = tool.model_fields.items()
            valid = ", ".join(
                name if field.is_required() else f"{name} (optional)"
                for name, field in fields
            )
            lines = [
                "the arguments do not fit:",
                *wrong,
                f"Valid arguments of {tool.name}: {valid}",
            ]
            raise ToolError("\n".join(lines)) from error


def _spec(tool: type[Tool]) -> ToolSpec:
    """Return the specification of a tool for a model, without titles, which only cost tokens."""
    schema = tool.model_json_schema()
    for field in schema["properties"].values():
        del field["title"]
    parameters = {
        "type": "object",
        "properties": schema["properties"],
        "required": schema.get("required", []),
    }
    return ToolSpec(
        tool.name, tool.description, {**parameters, "additionalProperties": False}
    )


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call without nulls. Raise ToolError unless the text is empty or a JSON object."""
    try:
        value = json.loads(text.strip() or "{}")
        json.dumps(value, ensure_ascii=False).encode()  # fails for a lone surrogate
    except (ValueError, RecursionError) as error:
        hint = "nothing was run; if they were cut off by a limit of length, do it in smaller parts"
        raise ToolError(
            f"the arguments are malformed JSON: {str(error)[:200]}; {hint}"
        ) from error
    if not isinstance(value, dict):
        raise ToolError(
            f"the arguments must be a JSON object, not {type(value).__name__}; nothing was run"
        )
    return {name: given for name, given in value.items() if given is not None}


def refused(
    call: ToolCall, tool: str, command: str, reason: str, fact: str = "error"
) -> ToolResult:
    """Return the result of a call that was not done."""
    return ToolResult(
        tool_call_id=call.id,
        tool=tool,
        command=command,
        facts=(fact,),
        output=f"{reason}\n".encode(errors="replace"),
        summary=f"{fact}: {one_line(reason.partition('; ')[0], _LONGEST_REASON)}",
        writes=False,
    )


SHOWN_CHARACTERS = 20_000
"""Characters of one tool result that the model gets."""

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = {code: "�" for code in (*range(32), 127) if chr(code) not in "\t\n\r"}


def tool_message_text(recorded: Recorded) -> str:
    """Return the text of a tool message: the result's id and facts, then its output, truncated."""
    facts = ", ".join(recorded.observation.facts)
    heading = (
        f"[{recorded.observation.id}] ({facts})"
        if facts
        else f"[{recorded.observation.id}]"
    )
    text = recorded.head.decode(errors="replace")
    if recorded.tail:
        text = f"{text}\n[... {recorded.omitted:,} bytes left out ...]\n{recorded.tail.decode(errors='replace')}"
    text = shortened(text, SHOWN_CHARACTERS, "; the whole output is kept")
    return f"{heading}\n{_COLOUR.sub('', text).translate(_CONTROL) or '[no output]'}"


def tool_message(call_id: str, text: str) -> dict[str, Any]:
    """Return the answer to a tool call in OpenAI's format."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}
