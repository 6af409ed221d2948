"""Sub-goals: what a parent run demands of them, and how they are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from goalrunner import Goal, GoalOutcome, read_state, run_goal
from goalrunner.cli.main import main
from goalrunner.core.errors import RunNotFound, UsageError
from goalrunner.testing import ScriptedConversation


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


class Asking(ScriptedConversation):
    """An agent that asks before it acts, and does nothing."""

    supports_approvals = True


def run(folder: Path, objective: str, **fields: Any) -> GoalOutcome:
    fields["workspace"] = {"path": str(folder), **fields.get("workspace", {})}
    return run_goal(
        Asking("done"), Goal(objective=objective, validator="true", **fields)
    )


def test_a_sub_goal_keeps_to_the_constraints_the_approvals_and_the_protection_of_its_parents(
    workspace: Path,
) -> None:
    whole = run(
        workspace,
        "The site is translated.",
        constraints=["no new dependency", "URLs stay"],
        workspace={"protect": ["tests/**"]},
        approvals={"commands": ["git push*"], "on_deny": "continue"},
    )
    part = run(
        workspace,
        "The menu is translated.",
        parent=whole.run_id[:4],
        constraints=["URLs stay", "one file"],
        workspace={"protect": ["data/**"]},
    )
    state = read_state(
        run(workspace, "The first entry is translated.", parent=part.run_id)
    )
    assert state.goal.constraints == ("no new dependency", "URLs stay", "one file")
    assert state.plan.protects == ("tests/**", "data/**")
    assert (state.plan.approvals.commands, state.plan.approvals.on_deny) == (
        ("git push*",),
        "stop",
    )
    assert (part.parent, state.goal.parent) == (whole.run_id, part.run_id)


def test_protection_is_for_the_same_workspace_only(
    workspace: Path, tmp_path: Path
) -> None:
    whole = run(
        workspace,
        "All is done.",
        constraints=["short"],
        workspace={"protect": ["tests/**"]},
    )
    (tmp_path / "other").mkdir()
    state = read_state(run(tmp_path / "other", "A part is done.", parent=whole.run_id))
    assert (state.goal.constraints, state.plan.protects) == (("short",), ())


@pytest.mark.parametrize(
    ("theirs", "own", "key"),
    [
        ({"protect": ["tests/**"]}, {"editable": ["tests/**"]}, "protect"),
        ({"editable": ["src/**"]}, {"editable": ["src/**", "tests/**"]}, "editable"),
        ({"editable": ["src/**"]}, {"protect": ["tests/**"]}, "editable"),
    ],
)
def test_a_sub_goal_that_would_let_its_agent_change_more_is_refused(
    workspace: Path, theirs: dict[str, Any], own: dict[str, Any], key: str
) -> None:
    whole = run(workspace, "All is done.", workspace=theirs)
    with pytest.raises(
        UsageError, match=rf"does not fit {key} = .* of the parent run {whole.run_id}"
    ):
        run(workspace, "A part is done.", parent=whole.run_id, workspace=own)


def test_a_sub_goal_may_edit_less(workspace: Path) -> None:
    whole = run(
        workspace, "All is done.", workspace={"editable": ["src/**", "docs/**"]}
    )
    narrow = run(
        workspace,
        "A part is done.",
        parent=whole.run_id,
        workspace={"editable": ["docs/**"]},
    )
    same = run(workspace, "A part is done.", parent=whole.run_id)
    assert read_state(narrow).plan.editable == ("docs/**",)
    assert read_state(same).plan.editable == ("src/**", "docs/**")


def test_a_parent_that_does_not_exist_is_refused_before_the_run(
    workspace: Path, own_home: Path
) -> None:
    run(workspace, "All is done.")
    with pytest.raises(RunNotFound, match=r'^parent: no run "zzzz"'):
        run(workspace, "A part is done.", parent="zzzz")
    assert len(list((own_home / "runs").iterdir())) == 1


def test_the_tree_is_shown(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = run(workspace, "The site is translated.")
    menu = run(workspace, "The menu is translated.", parent=whole.run_id)
    entry = run(workspace, "One entry is translated.", parent=menu.run_id)
    footer = run(workspace, "The footer is translated.", parent=whole.run_id)
    main(["show", whole.run_id])
    assert capsys.readouterr().out.splitlines()[-3:] == [
        f"sub-goals  {menu.run_id} · complete · The menu is translated.",
        f"           └ {entry.run_id} · complete · One entry is translated.",
        f"           {footer.run_id} · complete · The footer is translated.",
    ]
    main(["show", entry.run_id])
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == f"parent     {menu.run_id} · complete · The menu is translated."
    )
    main(["show", whole.run_id, "--json"])
    assert [
        item["run_id"] for item in json.loads(capsys.readouterr().out)["sub_goals"]
    ] == [
        footer.run_id,
        menu.run_id,
        entry.run_id,
    ]
