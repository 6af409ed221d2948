"""The tools that an agent has. Owns finding the tool, reading its arguments, and turning every mistake into a result."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goalrunner.agents.tools.edit_file import EditFileTool
from goalrunner.agents.tools.notices import AskTool, ReportBlockedTool
from goalrunner.agents.tools.plan import PlanTool
from goalrunner.agents.tools.read_file import ReadFileTool
from goalrunner.agents.tools.shell import ShellTool
from goalrunner.agents.tools.tool import Effect, Scratch, Tool, ToolError
from goalrunner.agents.tools.write_file import WriteFileTool
from goalrunner.llm import ToolCall, ToolSpec
from goalrunner.ports import Launcher, ToolResult

DEFAULT_SHELL_TIMEOUT = 120.0
"""Seconds that a command has where the model asks for no other time."""


_LONGEST_REASON = 100

UNKNOWN_TOOL = "unknown_tool"
"""What stands for a name that is none."""


class Toolbox:
    """shell, read_file, write_file and edit_file over one workspace.

    `env` is the whole environment of the commands, without the providers' keys. `shell_timeout` is in seconds. `secret`,
    a path without links, is a file that the tools do not open.
    """

    def __init__(
        self,
        workspace: Path,
        launcher: Launcher,
        env: Mapping[str, str],
        shell_timeout: float = DEFAULT_SHELL_TIMEOUT,
        *,
        secret: Path | None = None,
    ) -> None:
        self._secret = secret
        self.workspace = Path(os.path.realpath(workspace))
        tools: tuple[Tool[Any], ...] = (
            ShellTool(self.workspace, launcher, env, shell_timeout),
            ReadFileTool(self.workspace),
            WriteFileTool(self.workspace),
            EditFileTool(self.workspace),
            ReportBlockedTool(),
            AskTool(),
            PlanTool(),
        )
        self._tools = {tool.name: tool for tool in tools}
        self._specs = tuple(tool.spec() for tool in tools)

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is told of them."""
        return self._specs

    def name(self, call: ToolCall) -> str:
        """The tool that is asked for, or "unknown_tool" for a name that is none."""
        return call.name if call.name in self._tools else UNKNOWN_TOOL

    def summary(self, call: ToolCall) -> str:
        """One line for people: the command or the path; for a call that cannot be read, what it says."""
        try:
            tool, arguments = self._read(call)
        except ToolError:
            return _one_line(call.arguments if call.name in self._tools else f"{call.name} {call.arguments}")
        return _one_line(tool.command(arguments))

    def effect(self, call: ToolCall) -> Effect | None:
        """What a call would do; None where it has no effect, or cannot be read."""
        try:
            tool, arguments = self._read(call)
            return tool.effect(arguments)
        except (ToolError, OSError):
            return None

    async def run(self, call: ToolCall, scratch: Scratch) -> ToolResult:
        """Do what a model asks. What is wrong with the call becomes a result with the fact "error", never an exception."""
        command = _one_line(call.arguments)
        try:
            tool, arguments = self._read(call)
            command = tool.command(arguments)
            self._refuse_secret(tool, arguments)
            answer = await tool.run(arguments, scratch)
        except ToolError as error:
            return refused(call, self.name(call), command, str(error), error.short)
        except OSError as error:
            why = error.strerror or str(error)
            return refused(call, call.name, command, f"{call.name} failed: {why}", why.lower())
        return ToolResult(
            tool_call_id=call.id,
            tool=call.name,
            command=command,
            facts=answer.facts,
            output=answer.output,
            duration=answer.duration,
            summary=answer.summary,
            path=tool.path(arguments),
            writes=tool.writes,
            notice=tool.notice,
            plan=answer.plan,
        )

    def _refuse_secret(self, tool: Tool[Any], arguments: Any) -> None:
        if self._secret is not None and (path := tool.path(arguments)) and self.workspace / path == self._secret:
            raise ToolError(f"{path} is the goal file, which is not readable in this run", "not readable")

    def _read(self, call: ToolCall) -> tuple[Tool[Any], Any]:
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(f"there is no tool of that name; the tools are {', '.join(self._tools)}")
        return tool, tool.parse(read_arguments(call.arguments))


def read_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call as an object; nothing at all is an empty one. Raises ToolError that says what is wrong."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        cut = error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip())
        hint = "; were they cut off by a limit of length? then do it in smaller parts" if cut else ""
        raise ToolError(f"the arguments are malformed JSON: {error.msg} ({where}); nothing was run{hint}") from error
    except UnicodeEncodeError as error:
        raise ToolError("the arguments hold half a surrogate pair, which is no character; nothing was run") from error
    except (ValueError, RecursionError) as error:
        raise ToolError("the arguments are JSON that cannot be read: too deep, or a number too long") from error
    if not isinstance(value, dict):
        raise ToolError(f"the arguments must be a JSON object, not {type(value).__name__}; nothing was run")
    return value


def refused(call: ToolCall, tool: str, command: str, reason: str, short: str = "") -> ToolResult:
    """The result of a call that was not done. `tool` is never a name that a model made up.

    `short` is the reason for people; without one it is the beginning of `reason`.
    """
    said = short or reason.partition("\n")[0].partition("; ")[0].rstrip(":")
    return ToolResult(
        tool_call_id=call.id,
        tool=tool,
        command=command,
        facts=("error",),
        output=f"{reason}\n".encode(errors="replace"),
        summary=f"error: {_one_line(said, _LONGEST_REASON)}",
        writes=False,
    )


def _one_line(text: str, longest: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
