"""The arguments of a tool call of any agent: its command, its file, its texts."""

from __future__ import annotations

import re
from typing import Any

from goalrunner.core.actions import shown_command
from goalrunner.core.messages import at, clean, json_of, text

PATH_ARGUMENTS = (
    "file_path",
    "filePath",
    "path",
    "filename",
    "absolute_path",
    "notebook_path",
    "target_file",
)
"""Arguments of file tools that name the file."""

# Agents name their tools freely; these are compared in lower case, letters only.
_SUBAGENTS = frozenset(
    """
    think task agent agentoutputtool delegate delegatetask delegatetoagent spawnagent
    waitagent resumeagent sendinput closeagent invokeagent subagent newtask
    codebaseinvestigator usesubagents subagentexecutetask
    """.split()
)
"""Tools whose result is the report of another agent.

Agents of the Agent Client Protocol give such calls the kind `think`.
"""
_WRITERS = tuple(
    """
    write writefile writetofile edit editfile fileeditor editor edittool create
    createfile replace replaceinfile strreplace insert append savefile patch diff
    filechange delete deletefile
    """.split()
)
"""Endings of the names of tools that write files."""
_OF_ONE_FILE = (*_WRITERS, "read", "readfile", "view", "viewfile", "openfile", "cat")
"""Endings of the names of tools that look at one file, or write it."""
_COMMANDS = ("command", "cmd", "script", "code")
"""Arguments of shell-like tools that hold the command."""


def command_of(arguments: Any) -> str | None:
    """Return the command line of a shell-like call; None for other calls."""
    if not isinstance(arguments, dict):
        return None
    if any(isinstance(arguments.get(key), str) for key in PATH_ARGUMENTS):
        # The "command" of a file tool is what it does: "view", "create".
        return None
    for value in map(arguments.get, _COMMANDS):
        if isinstance(value, str):
            # Quoted in `bash -c`, the files that it writes would be hidden.
            return shown_command(clean(value))
        if isinstance(value, list) and _are_words(value):
            is_shell = len(value) == 3 and value[1] in ("-c", "-lc")
            return clean(value[2] if is_shell else " ".join(value))
    return None


def _are_words(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


def shown_arguments(tool: str, arguments: Any, command: str | None) -> str:
    """Return the command line, the path of a file tool, or else the arguments.

    All arguments are returned, so that a quote which only repeats them is recognised.
    For tools that write files, the path is enough: a result that shows the written text
    is marked as forgeable.
    """
    if command is not None:
        return command
    # Of a file tool, the path is what a person recognises.
    if isinstance(arguments, dict):
        keys = {key for key, value in arguments.items() if isinstance(value, str)}
        path = next((arguments[key] for key in PATH_ARGUMENTS if key in keys), None)
        has_only_path = keys <= {*PATH_ARGUMENTS, "command"}
        if path is not None and (has_only_path or is_writer(tool)):
            return f"{arguments['command']} {path}" if "command" in keys else path
    if isinstance(arguments, str):
        return arguments
    return json_of(arguments) if arguments else ""


def argument_texts(arguments: Any) -> list[str]:
    """Return the texts among the arguments, and those of their `message`."""
    values = [*arguments.values()] if isinstance(arguments, dict) else [arguments]
    values += [at(value, "message") for value in values]
    texts = [value.strip() for value in values if isinstance(value, str)]
    return list(filter(None, texts))


def is_subagent(tool: str) -> bool:
    """Return whether the results of a tool are reports of another agent.

    They are claims in runs and in saved transcripts.
    """
    return _letters(tool) in _SUBAGENTS


def is_writer(tool: str) -> bool:
    return _letters(tool).endswith(_WRITERS)


def is_file_tool(tool: str) -> bool:
    """Return whether a tool looks at one file, or writes it."""
    return _letters(tool).endswith(_OF_ONE_FILE)


def only_path(tool: str, arguments: Any) -> str:
    """Return the file that a tool reads or writes; empty if it may look at others."""
    if not isinstance(arguments, dict) or not is_file_tool(tool):
        return ""
    for key in PATH_ARGUMENTS:
        if path := text(arguments.get(key)):
            return path
    return ""


def _letters(tool: str) -> str:
    return re.sub(r"[^a-z]", "", tool.lower())
