"""A shell tool for OpenHands agents."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openhands.sdk import Action, Observation, ToolDefinition
from openhands.sdk.tool import ToolExecutor, register_tool
from openhands.sdk.workspace import BaseWorkspace
from openhands.sdk.workspace.models import CommandResult
from pydantic import Field

from tests.adapters.frameworks import run_shell

NAME = "shell"


class ShellAction(Action):  # type: ignore[misc]
    """A command line."""

    command: str = Field(description="the command line")


class ShellObservation(Observation):  # type: ignore[misc]
    """The output of a command."""


class ShellExecutor(ToolExecutor):  # type: ignore[misc]
    """Runs commands in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, action: Any, conversation: Any = None) -> Any:
        """Run the command."""
        return ShellObservation.from_text(text=run_shell(action.command, self._folder))


class ShellTool(ToolDefinition[ShellAction, ShellObservation]):  # type: ignore[misc]
    """Runs commands in the workspace."""

    name = NAME

    @classmethod
    def create(cls, conv_state: Any = None, **_: Any) -> Sequence[Any]:
        """Return the tool for a conversation."""
        executor = ShellExecutor(Path(conv_state.workspace.working_dir))
        return [
            cls(
                description="Run a command.",
                action_type=ShellAction,
                observation_type=ShellObservation,
                executor=executor,
            )
        ]


register_tool(NAME, ShellTool)


class OtherMachine(BaseWorkspace):  # type: ignore[misc]
    """A workspace that is only reached by its command interface."""

    def execute_command(
        self, command: str, cwd: str | Path | None = None, timeout: float = 30.0
    ) -> Any:
        """Run a command with bash."""
        if not Path(self.working_dir).exists():
            raise ConnectionError("no route to host")
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=cwd or self.working_dir,
            timeout=timeout,
            capture_output=True,
            text=True,
            check=False,
        )
        return CommandResult(
            command=command,
            exit_code=done.returncode,
            stdout=done.stdout,
            stderr=done.stderr,
            timeout_occurred=False,
        )

    def file_upload(self, source_path: Any, destination_path: Any) -> Any:
        """Not used."""
        raise NotImplementedError

    def file_download(self, source_path: Any, destination_path: Any) -> Any:
        """Not used."""
        raise NotImplementedError

    def git_changes(self, path: Any) -> Any:
        """Not used."""
        raise NotImplementedError

    def git_diff(self, path: Any) -> Any:
        """Not used."""
        raise NotImplementedError
