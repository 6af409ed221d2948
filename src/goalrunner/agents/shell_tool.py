"""The tool `shell` of the built-in agent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from goalrunner.agents.tool import FilePlace, Scratch, Tool, ToolOutput
from goalrunner.core.activity import running
from goalrunner.core.ports import Completion
from goalrunner.system.launcher import SHELL

LONGEST_TIMEOUT = 1_800.0
"""Seconds; the longest timeout of a command."""
# Characters that the name of a process should not have.
_NOT_IN_A_NAME = re.compile(r"[^\w.:@/+-]+")


class Shell(Tool):
    """Runs a command line in the workspace.

    Its whole output is recorded, and all its processes end with it.
    """

    name = "shell"
    kind = "shell"
    description = (
        "Run a command line with sh -c in the workspace. You get the exit code, then "
        "stdout and stderr as one text. There is no terminal and no input. Each call "
        "is a new shell: cd and variables do not last. Processes that are still "
        "running when the command ends are ended with it, so start and use a server "
        "within one command."
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
        # A longer timeout than allowed is no reason to refuse the call.
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
        if completion.survivors:
            facts.append(_survivors(completion.survivors))
        # A program that could not be started has no output file.
        output: bytes | Path = completion.output if completion.output.exists() else b""
        return ToolOutput(
            tuple(facts), output, summary=facts[0], duration=completion.duration
        )


def _survivors(names: Sequence[str]) -> str:
    """Return the fact about processes that outlived the command, and were ended."""
    # A program chooses its name, which must not look like another fact.
    safe_names = [_NOT_IN_A_NAME.sub("_", name) or "_" for name in names]
    noun = "process" if len(names) == 1 else "processes"
    return f"ended {len(names)} {noun} left behind: {', '.join(safe_names)}"


def _ending(completion: Completion, timeout: float) -> str:
    if completion.timed_out:
        return f"timed out after {timeout:g} s"
    if completion.exit_code is None:
        return completion.error or "ended by a signal"
    code = f"exit {completion.exit_code}"
    return f"{code}: {completion.error}" if completion.error else code
