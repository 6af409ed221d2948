"""The tools of the built-in agent for one workspace: reading and running the calls of a model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from goalrunner.agents.file_tools import EditFile, ReadFile, WriteFile
from goalrunner.agents.tool import Ask, Effect, Place, Plan, ReportBlocked, Scratch, Shell, Tool, ToolError
from goalrunner.core.agent_ports import ToolResult
from goalrunner.core.errors import one_line
from goalrunner.core.ports import Launcher
from goalrunner.llm import ToolCall

UNKNOWN_TOOL = "unknown_tool"
"""The recorded tool of a call whose tool does not exist."""
_LONGEST_REASON = 100


class Described(NamedTuple):
    """A call before it is run: tool, the command or path on one line, and what the call would do."""

    tool: str = UNKNOWN_TOOL
    summary: str = ""
    effect: Effect | None = None


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
        self._place = Place(self.workspace, launcher, dict(env), secret)
        chosen = [tool for tool in (Shell, ReadFile, WriteFile, EditFile) if names is None or tool.name in names]
        self._tools: dict[str, type[Tool]] = {tool.name: tool for tool in (*chosen, ReportBlocked, Ask, Plan)}
        self.specs = tuple(tool.spec() for tool in self._tools.values())
        """The specifications of the tools for a model."""

    def describe(self, call: ToolCall) -> Described:
        """Return the description of a call. An invalid call has no effect, and its arguments are the summary."""
        known = call.name in self._tools
        name = call.name if known else UNKNOWN_TOOL
        try:
            tool = self._read(call)
        except ToolError:
            return Described(name, one_line(call.arguments if known else f"{call.name} {call.arguments}"))
        return Described(name, one_line(tool.shown()), tool.effect(self._place))

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
            return refused(call, call.name, command, f"{call.name} failed: {error.strerror or error}")
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
            raise ToolError(f"there is no tool of that name; the tools are {', '.join(self._tools)}")
        arguments = read_arguments(call.arguments)
        try:
            return tool.model_validate(arguments)
        except ValidationError as error:
            raise ToolError(tool.explain(error)) from error


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call without nulls. Raise ToolError unless the text is empty or a JSON object."""
    try:
        value = json.loads(text.strip() or "{}")
        json.dumps(value, ensure_ascii=False).encode()  # fails for a lone surrogate
    except (ValueError, RecursionError) as error:
        hint = "nothing was run; if they were cut off by a limit of length, do it in smaller parts"
        raise ToolError(f"the arguments are malformed JSON: {str(error)[:200]}; {hint}") from error
    if not isinstance(value, dict):
        raise ToolError(f"the arguments must be a JSON object, not {type(value).__name__}; nothing was run")
    return {name: given for name, given in value.items() if given is not None}


def refused(call: ToolCall, tool: str, command: str, reason: str, fact: str = "error") -> ToolResult:
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
