"""Goals that cannot be run, found before anything is written. Owns what they are told; makes no part."""

from __future__ import annotations

import os
from pathlib import Path

from goalrunner.compose.external import Named, refuse_unfit_agent
from goalrunner.compose.misfits import refuse_misfits
from goalrunner.compose.models import Models, refuse_unknown_prices
from goalrunner.errors import UsageError
from goalrunner.judge import check_room
from goalrunner.model.goal import Goal
from goalrunner.workspace.claim import refuse_claimed
from goalrunner.workspace.layout import store_name

CHECKOUTS = "checkouts"
"""The folder of clean checkouts in the home."""


def refuse_unfit(goal: Goal, models: Models, home: Path, named: Named | None = None) -> None:
    """What each part by itself takes, and the whole does not. `home` is where the run is kept.

    `named` is the external agent, where the goal has one. Raises UsageError.
    """
    _refuse_nested_home(goal, home)
    _refuse_unseen_checks(goal)
    _refuse_unseen_work(goal)
    _refuse_both_rules(goal)
    refuse_unknown_prices(goal, models)
    if named is not None:
        refuse_unfit_agent(named)
        refuse_misfits(named)
    if models.judge is not None:
        check_room(goal)


def workspace_of(goal: Goal) -> Path:
    """The folder that is worked in, absolute and without links."""
    return Path(goal.workspace.path or Path.cwd()).resolve()


def refuse_shared_workspace(goal: Goal, home: Path) -> None:
    """Raise WorkspaceError if another run works in the workspace of a goal."""
    if goal.deliverable == "workspace":
        workspace = workspace_of(goal)
        refuse_claimed(workspace, home / "stores" / store_name(workspace) / "lock")


def _refuse_unseen_checks(goal: Goal) -> None:
    """Hidden validators need a check environment."""
    hidden = [spec.name or spec.run or spec.python or "" for spec in goal.validators if spec.hidden]
    if hidden and goal.deliverable != "workspace":
        raise UsageError(
            f'the hidden validator {hidden[0]} would never run: hidden ones need deliverable = "workspace"',
            "leave out hidden = true",
        )


def _refuse_unseen_work(goal: Goal) -> None:
    """Of an external agent's work the runner sees what its own validators show, and no more."""
    unseen = goal.agent.external and not goal.validators and goal.deliverable == "workspace"
    if goal.judge.require == "runner" and unseen:
        raise UsageError(
            f'[judge] require = "runner" and no validator: of what {goal.agent.use} does the runner sees nothing itself',
            'add a validator whose output shows it, or set [judge] require = "any"',
        )


def _refuse_both_rules(goal: Goal) -> None:
    """`editable` says more than `protect` can."""
    if goal.workspace.editable and goal.workspace.protect:
        raise UsageError(
            "[workspace] editable and protect cannot be combined: editable protects everything that it does not name",
            "remove one of the two",
        )


def _refuse_nested_home(goal: Goal, home: Path) -> None:
    """What the runner records about the checks lies outside of the workspace. Without checks it may be anywhere."""
    if not (goal.validators and goal.deliverable == "workspace"):
        return
    workspace, checkouts = workspace_of(goal), Path(os.path.realpath(home / CHECKOUTS))
    if checkouts.is_relative_to(workspace):
        told = f"{home}, where goal keeps its runs, lies in the workspace {workspace}"
    elif workspace.is_relative_to(checkouts):
        told = f"the workspace {workspace} lies in {checkouts}, where goal keeps temporary files"
    else:
        return
    hint = "export GOAL_HOME=... with a folder outside of it, or name another workspace: --workspace DIR"
    raise UsageError(told, hint)
