"""Goals that are a part of another goal: what a parent run demands of them, and the tree of runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from goalrunner.app.previous_run import load_state
from goalrunner.app.sandbox import workspace_of
from goalrunner.core.errors import UsageError
from goalrunner.core.goal import Goal
from goalrunner.core.run_state import RunState
from goalrunner.records.run_folder import find_run


def within_parent(goal: Goal, home: Path) -> Goal:
    """Return a goal with the constraints and approvals of its parent run, and with its protection in the same workspace.

    Raise UsageError if there is no such run, or if `editable` names what the parent does not let its agent change.
    (Source: sub-goals of the Goals-and-State document.)
    """
    if not goal.parent:
        return goal
    folder = find_run(home, goal.parent)
    state = load_state(folder)
    mine, theirs = goal.approvals, state.plan.approvals
    approvals = {
        "require": _joined(theirs.require, mine.require),
        "commands": _joined(theirs.commands, mine.commands),
        "on_deny": "stop" if "stop" in (mine.on_deny, theirs.on_deny) else "continue",
    }
    update = {
        "parent": folder.run_id,
        "constraints": _joined(state.goal.constraints, goal.constraints),
        "approvals": mine.model_copy(update=approvals),
        "workspace": goal.workspace.model_copy(update=_protection(goal, state)),
    }
    return goal.model_copy(update=update)


def _protection(goal: Goal, parent: RunState) -> dict[str, tuple[str, ...]]:
    own, plan = goal.workspace, parent.plan
    if str(workspace_of(goal)) != parent.workspace or not (plan.protects or plan.editable):
        return {}
    if plan.protects and not own.editable:
        return {"protect": _joined(plan.protects, own.protect)}
    if plan.editable and not own.protect and set(own.editable) <= set(plan.editable):
        return {"editable": own.editable or plan.editable}
    key, patterns = ("protect", plan.protects) if plan.protects else ("editable", plan.editable)
    other = "editable" if own.editable else "protect"
    raise UsageError(
        f"[workspace] {other} cannot be combined with {key} = {list(patterns)} of the parent run {parent.goal.run_id}",
        f"remove {other}: the sub-goal has the parent's {key}"
        + (", or name some of its patterns" if plan.editable else ""),
    )


def _joined(*parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for part in parts for item in part))


def sub_goals(
    run_id: str, summaries: Sequence[Mapping[str, Any]], depth: int = 1
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the summaries of the runs below a run in their order, each before its own sub-goals, with its depth from 1."""
    for summary in summaries:
        if summary.get("parent") == run_id != summary["run_id"]:
            yield depth, summary
            yield from sub_goals(summary["run_id"], [one for one in summaries if one is not summary], depth + 1)
