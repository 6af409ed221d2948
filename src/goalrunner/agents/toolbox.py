"""The calls of a model to the tools of the built-in agent."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from goalrunner.agents.file_tools import EditFile, ReadFile, WriteFile
from goalrunner.agents.note_tools import AskTool, PlanTool, ReportBlocked
from goalrunner.agents.shell_tool import Shell
from goalrunner.agents.tool import FilePlace, Scratch, Tool, ToolError
from goalrunner.core.agent_ports import Recorded, ToolResult
from goalrunner.core.errors import one_line, shortened
from goalrunner.core.ports import Launcher
from goalrunner.llm import ToolCall, ToolSpec

UNKNOWN_TOOL = "unknown_tool"
"""The recorded tool of a call whose tool does not exist."""
# Characters of a reason in the summary of a call.
_LONGEST_REASON = 100
# Characters of what is wrong with one argument.
_LONGEST_PROBLEM = 200


class Described(NamedTuple):
    """A call before it is run."""

    tool: str = UNKNOWN_TOOL
    text: str = ""
    """The command or path."""
    kind: Literal["shell", "write"] | None = None
    """The kind of action that may need approval."""
    preview: str = ""
    """What a write would change, as a diff."""


class Toolbox:
    """The tools for one workspace.

    They are those in `names`, by default all, and the ones that only record. `env` is
    the whole environment of the commands, without the providers' keys. `secret` is the
    real path of a file that the tools do not open.
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
        # File tools compare real paths.
        self.workspace = Path(os.path.realpath(workspace))
        self._place = FilePlace(self.workspace, launcher, dict(env), secret)
        selectable: tuple[type[Tool], ...] = (Shell, ReadFile, WriteFile, EditFile)
        if names is not None:
            selectable = tuple(tool for tool in selectable if tool.name in names)
        tools: list[type[Tool]] = [*selectable, ReportBlocked, AskTool, PlanTool]
        self._tools: dict[str, type[Tool]] = {tool.name: tool for tool in tools}
        self.specs = tuple(map(_spec, self._tools.values()))
        """The specifications of the tools for a model."""

    def describe(self, call: ToolCall) -> Described:
        """Return the description of a call.

        An invalid call has no effect, and its arguments are the text.
        """
        if call.name not in self._tools:
            return Described(UNKNOWN_TOOL, f"{call.name} {call.arguments}")
        try:
            tool = self._read(call)
        except ToolError:
            return Described(call.name, call.arguments)
        return Described(call.name, tool.label(), tool.kind, tool.preview(self._place))

    async def run(self, call: ToolCall, scratch: Scratch) -> ToolResult:
        """Run a call.

        A failure is a result with the fact "error", never an exception: the model
        corrects its mistakes.
        """
        # Until the arguments are read, they stand for the command.
        command = one_line(call.arguments)
        try:
            tool = self._read(call)
            command = tool.label()
            file = tool.file(self._place)
            answer = await tool.run(self._place, scratch)
        except ToolError as error:
            name = call.name if call.name in self._tools else UNKNOWN_TOOL
            return refused(call, name, command, str(error))
        except OSError as error:
            reason = f"{call.name} failed: {error.strerror or error}"
            return refused(call, call.name, command, reason)
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
            raise ToolError(_problems(tool, error)) from error


def _problems(tool: type[Tool], error: ValidationError) -> str:
    """Return what is wrong with the arguments of a call, and the valid ones."""
    # Without the input, which the model knows, and which may be very long.
    problems = error.errors(
        include_url=False, include_context=False, include_input=False
    )
    lines = ["the arguments do not fit:"]
    for problem in problems:
        line = f'- "{problem["loc"][0]}": {problem["msg"]}'
        lines.append(line[:_LONGEST_PROBLEM])
    names = []
    for name, field in tool.model_fields.items():
        names.append(name if field.is_required() else f"{name} (optional)")
    lines.append(f"Valid arguments of {tool.name}: {', '.join(names)}")
    return "\n".join(lines)


def _spec(tool: type[Tool]) -> ToolSpec:
    """Return the specification of a tool for a model."""
    schema = tool.model_json_schema()
    # Titles repeat the names and cost tokens.
    for field in schema["properties"].values():
        del field["title"]
    parameters = {
        "type": "object",
        "properties": schema["properties"],
        "required": schema.get("required", []),
        "additionalProperties": False,
    }
    return ToolSpec(tool.name, tool.description, parameters)


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call without nulls.

    Raise ToolError unless the text is empty or a JSON object.
    """
    try:
        value = json.loads(text.strip() or "{}")
        # Fails for a lone surrogate, which no file or command can contain.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ToolError(
            f"the arguments are malformed JSON: {str(error)[:_LONGEST_PROBLEM]}; "
            "nothing was run; if they were cut off by a limit of length, "
            "do it in smaller parts"
        ) from error
    if not isinstance(value, dict):
        raise ToolError(
            f"the arguments must be a JSON object, not {type(value).__name__}; "
            "nothing was run"
        )
    # Models write null for an optional argument that they do not use.
    return {name: item for name, item in value.items() if item is not None}


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


LONGEST_RESULT = 20_000
"""Characters of one tool result that the model gets."""

# https://en.wikipedia.org/wiki/ANSI_escape_code#Control_Sequence_Introducer_commands
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# Control characters that are neither a tab nor a line end.
_CONTROL = {code: "�" for code in (*range(32), 127) if chr(code) not in "\t\n\r"}


def tool_message_text(recorded: Recorded) -> str:
    """Return the text of a tool message.

    It has the result's id and facts, then its output, truncated.
    """
    facts = ", ".join(recorded.observation.facts)
    heading = f"[{recorded.observation.id}]"
    if facts:
        heading = f"{heading} ({facts})"
    text = recorded.head.decode(errors="replace")
    if recorded.tail:
        tail = recorded.tail.decode(errors="replace")
        text = f"{text}\n[... {recorded.omitted:,} bytes left out ...]\n{tail}"
    text = shortened(text, LONGEST_RESULT, "; the whole output is kept")
    # Colours cost tokens, and some providers reject control characters.
    text = _COLOUR.sub("", text).translate(_CONTROL)
    return f"{heading}\n{text or '[no output]'}"


def tool_message(call_id: str, text: str) -> dict[str, Any]:
    """Return the answer to a tool call in OpenAI's format."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}
