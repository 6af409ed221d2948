"""Which of the tools that a program declares runs a command line, and how it wants to be called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from goalrunner.rehearsal.request import Tool
from goalrunner.rehearsal.sample import kind_of, sample

_NAMES = (
    "bash",
    "run_shell_command",
    "exec_command",
    "shell_command",
    "shell",
    "local_shell",
    "terminal",
    "execute_bash",
    "run_command",
    "execute_command",
)
_SCRIPT = "exec"
"""Codex offers its own models a single tool that runs JavaScript, in which the others are functions."""
_ARGUMENTS = ("command", "cmd", "command_line", "script", "input")


def command_tool(tools: Sequence[Tool]) -> Tool | None:
    """The tool among them that runs a command line; None where there is none."""
    by_name = {tool.name.lower(): tool for tool in reversed(tools)}
    for name in _NAMES:
        if name in by_name and _argument(by_name[name]):
            return by_name[name]
    script = by_name.get(_SCRIPT)
    return script if script is not None and script.free else None


def as_call(command: str, tool: Tool) -> tuple[str, str]:
    """The tool's name, and the raw arguments that make it run `command`."""
    if tool.free:
        return tool.name, f"text(await tools.exec_command({json.dumps({'cmd': command})}))"
    arguments = dict(sample({**tool.schema, "type": "object"}))
    name = _argument(tool)
    listed = kind_of(_properties(tool).get(name) or {}) == "array"
    arguments[name] = ["bash", "-c", command] if listed else command
    return tool.name, json.dumps(arguments)


def _argument(tool: Tool) -> str:
    properties = _properties(tool)
    return next((name for name in _ARGUMENTS if name in properties), "")


def _properties(tool: Tool) -> Mapping[str, Any]:
    found = tool.schema.get("properties")
    return found if isinstance(found, Mapping) else {}
