"""What a worker needs to run a goal: the job of a run in the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from goalrunner.core.field_types import Frozen
from goalrunner.core.goal import Goal
from goalrunner.fleet.sources import Source
from goalrunner.goalfile.loading import load_goal_text


class StoredSource(Frozen):
    """A `Source` as it is stored."""

    repository: str
    base: str
    bundle: str
    folder: str

    def source(self) -> Source:
        return Source(**dict(self))


class FleetJob(Frozen):
    """A goal as it was submitted."""

    goal_text: str
    """The goal file."""
    goal_file: str
    """Its path in the repository; relative paths in the goal start from its folder."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What replaces keys of the goal file, by dotted key: `agent.use`."""
    source: StoredSource

    def goal(self, project: Path, sandbox: str) -> Goal:
        """Return the goal in the project that was made of its source.

        `sandbox` is the one of the worker. The goal decides if that is "none". Raise
        GoalFileError.
        """
        file = project / self.goal_file
        goal = load_goal_text(
            self.goal_text,
            str(file),
            self.options,
            base=file.parent,
            workspace=project / self.source.folder,
        )
        return with_sandbox(goal, sandbox)


def with_sandbox(goal: Goal, sandbox: str) -> Goal:
    """Return a goal with the sandbox of a worker; "none": the goal decides."""
    if sandbox == "none":
        return goal
    # What a goal may do on this machine is decided here, not by its author, nor by the
    # worker at which its run began.
    workspace = goal.workspace.model_copy(update={"sandbox": sandbox})
    return goal.model_copy(update={"workspace": workspace})
