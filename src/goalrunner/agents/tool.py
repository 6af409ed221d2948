"""The base class of the built-in agent's tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from goalrunner.core.events import PlanProposed
from goalrunner.core.ports import Launcher

Scratch = Callable[[str], Path]
"""Returns a new path in the run's folder; the argument is a suffix."""


class ToolError(Exception):
    """A call that cannot be done.

    The model gets the whole text; its summary ends at the first semicolon.
    """


@dataclass(frozen=True)
class ToolOutput:
    """The result of a tool."""

    facts: tuple[str, ...]
    """What the runner itself knows: ("exit 0",)."""
    output: bytes | Path
    """The whole output, or a file with it."""
    summary: str
    """A few words."""
    duration: float = 0.0
    """Seconds."""
    plan: PlanProposed | None = None


@dataclass(frozen=True)
class FilePlace:
    """Where tools work."""

    workspace: Path
    launcher: Launcher
    env: Mapping[str, str]
    """The whole environment of commands."""
    secret: Path | None = None
    """The real path of a file that is never opened."""


class Tool(BaseModel):
    """One call of a tool; the fields are its arguments.

    Nothing is coerced, and unknown arguments are an error: a model that guesses the
    name of an argument must see that it had no effect.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    name: ClassVar[str]
    description: ClassVar[str]
    writes: ClassVar[bool] = True
    """Whether a call may change the workspace."""
    notice: ClassVar[Literal["blocked", "question"] | None] = None
    """The kind of notice that a call gives to the run.

    The agent cannot continue, or asks a person.
    """
    kind: ClassVar[Literal["shell", "write"] | None] = None
    """The kind of action that a person may have to approve; None if a call has no
    effect."""

    def label(self) -> str:
        """Return the text under which the call is recorded: its first argument."""
        return str(next(value for _, value in self))

    def file(self, place: FilePlace) -> str | None:
        """Return the only path of the workspace that the call depends on.

        None if it may depend on any.
        """
        return None

    def preview(self, place: FilePlace) -> str:
        """Return what the call would write, as a diff.

        Empty if it writes no file itself.
        """
        return ""

    async def run(self, place: FilePlace, scratch: Scratch) -> ToolOutput:
        """Do the work. Raise ToolError or OSError if that fails."""
        raise NotImplementedError
