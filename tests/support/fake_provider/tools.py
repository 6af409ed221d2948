"""The tool that runs command lines, among those that a program declares, and calls of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.fake_provider.messages import Tool

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
        return (
            tool.name,
            f"text(await tools.exec_command({json.dumps({'cmd': command})}))",
        )
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


_PLAIN: dict[str, Any] = {
    "string": "fake",
    "boolean": False,
    "integer": 1,
    "number": 1,
    "null": None,
}


def sample(schema: Mapping[str, Any]) -> Any:
    """Such a value. Only required properties are given; what is not understood gives a string."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return sample(schema[name][0])
    kind = kind_of(schema)
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties") or {}
        return {
            name: sample(properties.get(name) or {})
            for name in schema.get("required") or ()
        }
    if kind == "array":
        return [sample(schema.get("items") or {})] if schema.get("minItems") else []
    return _PLAIN.get(kind, "fake")


def kind_of(schema: Mapping[str, Any]) -> str:
    """The schema's type in lower case (Gemini writes "STRING"); of several the first."""
    kind = schema.get("type") or ""
    return str(kind[0] if isinstance(kind, list) and kind else kind).lower()
