"""The goal of a receipt: what of a goal counts for it, and how a receipt names it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from goalrunner.app.resolve import with_workspace
from goalrunner.copies.merged_check import without_hidden
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.goal_tables import AGENT_MODEL, NotifyConfig
from goalrunner.goalfile.dumping import dump_goal
from goalrunner.goalfile.place import PYPROJECT
from goalrunner.receipts.statement import CheckedGoal, digest_of

RECEIPT_OBJECTIVE = "The change is verified by the tests that the base has."
"""The objective of a receipt whose goal neither a file nor an option names."""
_LIMITS = ("timeout", "wait", "budget", "stall_rounds")
"""The fields of a goal that end a run."""


def for_receipt(goal: Goal) -> Goal:
    """Return a goal of one round, in which no person is notified.

    No agent works, so no validator has to be hidden from it. Raise UsageError if the
    goal has nothing that checks the workspace.
    """
    if goal.deliverable != "workspace" or not goal.validators:
        raise UsageError(
            "a receipt needs validators that check the workspace",
            'name one: --validator "CMD", or [[validators]] in the goal file',
        )
    return _of_one_round(goal)


def _of_one_round(goal: Goal) -> Goal:
    """Return a goal without what only a run with an agent needs."""
    changes: dict[str, object] = {
        "max_iterations": 1,
        "baseline": "any",
        "notify": NotifyConfig(bell=False),
    }
    unused = ["critic", "memory", "telemetry"]
    # The judge may be the model of the agent.
    if goal.judge.model != AGENT_MODEL:
        unused.append("agent")
    return without_hidden(_with_defaults(goal.model_copy(update=changes), unused))


def _with_defaults(goal: Goal, names: Iterable[str]) -> Goal:
    """Return a goal in which these fields have their defaults."""
    changes: dict[str, object] = {}
    for name in names:
        field_info = Goal.model_fields[name]
        changes[name] = field_info.get_default(call_default_factory=True)
    return goal.model_copy(update=changes)


def goal_table(content: bytes, name: str) -> object:
    """Return the table of a goal in the content of a file; None without a table."""
    try:
        table = tomllib.loads(content.decode())
    except (ValueError, RecursionError):
        return None
    if name != PYPROJECT:
        return table
    tools = table.get("tool")
    return tools.get("goal") if isinstance(tools, dict) else None


@dataclass(frozen=True)
class GoalPlace:
    """Where a goal lies in a repository."""

    root: Path
    """The repository."""
    workspace: Path
    file: str = ""
    """The goal file, absolute; empty: there is none."""


def described_goal(goal: Goal, place: GoalPlace) -> CheckedGoal:
    """Return what a receipt says of a goal.

    Its paths are relative to the repository, so its digest is the same in each clone.
    """
    workspace = os.path.relpath(place.workspace, place.root)
    relative = with_workspace(_of_one_round(goal), Path(workspace))
    # How long a run may last does not say what it verifies, and some defaults depend
    # on the agent.
    relative = _with_defaults(relative, _LIMITS)
    return CheckedGoal(
        sha256=digest_of(dump_goal(relative, str)),
        objective=goal.objective,
        success_criteria=goal.success_criteria,
        file=os.path.relpath(place.file, place.root) if place.file else "",
        workspace=workspace,
    )
