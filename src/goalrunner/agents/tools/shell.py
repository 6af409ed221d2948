"""The tool `shell`: one command line, run to its end. Owns how an ending is said; the launcher owns the processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, WithJsonSchema

from goalrunner.agents.tools.tool import Answer, Arguments, Effect, Scratch, Tool, ToolError
from goalrunner.ports import Completion, Launcher
from goalrunner.process.program import SHELL

LONGEST_TIMEOUT = 1_800.0
"""Seconds; a longer wish is cut to it."""
_LONGEST_COMMAND = 128 * 1024 - 1
"""Bytes; Linux takes no longer string on a command line."""
_NOT_IN_A_NAME = re.compile(r"[^\w.:@/+-]+")


class ShellArguments(Arguments):
    """What `shell` takes."""

    command: str = Field(min_length=1, description="Command line for sh -c, run in the workspace.")
    timeout: Annotated[
        Annotated[float, Field(gt=0)] | None,
        WithJsonSchema({"type": "number", "description": f"Seconds until it is ended, at most {LONGEST_TIMEOUT:g}."}),
    ] = None


class ShellTool(Tool[ShellArguments]):
    """Runs a command line in the workspace. Its whole output is kept; nothing that it starts outlives it."""

    name = "shell"
    arguments = ShellArguments
    description = (
        "Run a command line with sh -c in the workspace. You get the exit code, then stdout and stderr as one text. There "
        "is no terminal and no input. Each call is a new shell: cd and variables do not last. Processes that are still "
        "running when the command ends are ended with it, so start and use a server within one command."
    )

    def __init__(self, workspace: Path, launcher: Launcher, env: Mapping[str, str], timeout: float) -> None:
        self._workspace = workspace
        self._launcher = launcher
        self._env = dict(env)
        self._timeout = timeout

    def command(self, arguments: ShellArguments) -> str:
        """The command line as the model gave it."""
        return arguments.command

    def effect(self, arguments: ShellArguments) -> Effect:
        """The command is run."""
        return Effect("shell", self.command(arguments))

    async def run(self, arguments: ShellArguments, scratch: Scratch) -> Answer:
        """Run it to its end or its deadline."""
        line = arguments.command
        if "\0" in line:
            raise ToolError("the command holds a NUL character, which no command line can")
        if len(line.encode()) > _LONGEST_COMMAND:
            raise ToolError("the command is longer than 128 KiB; put it into a file with write_file and run that")
        timeout = min(arguments.timeout or self._timeout, LONGEST_TIMEOUT)
        completion = await self._launcher.launch(
            [SHELL, "-c", line], cwd=self._workspace, env=self._env, output=scratch(".out"), timeout=timeout
        )
        facts = (_ending(completion, timeout), *_left_behind(completion))
        # A program that could not be started leaves no file.
        output: bytes | Path = completion.output if completion.output.exists() else b""
        return Answer(facts, output, summary=facts[0], duration=completion.duration)


def _ending(completion: Completion, timeout: float) -> str:
    if completion.timed_out:
        return f"timed out after {timeout:g} s"
    if completion.exit_code is None:
        return completion.error or "ended by a signal"
    code = f"exit {completion.exit_code}"
    return f"{code}: {completion.error}" if completion.error else code


def _left_behind(completion: Completion) -> tuple[str, ...]:
    number = len(completion.survivors)
    if not number:
        return ()
    noun = "process" if number == 1 else "processes"
    # A program chooses its own name: as one word it cannot pass for facts.
    names = (_NOT_IN_A_NAME.sub("_", name) or "_" for name in completion.survivors)
    return (f"ended {number} {noun} left behind: {', '.join(names)}",)
