"""Which goal files are kept from an agent, and which runs say that theirs was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalrunner.app.resolve import hidden_readable
from goalrunner.app.sandbox import secret_goal_file
from goalrunner.core.goal import Goal
from tests.support.workspaces import git

OPEN = {"name": "tests", "run": "test -e done"}
HIDDEN = {"name": "secret", "run": "grep -q 4711 done", "hidden": True}


def goal(*validators: dict[str, Any]) -> Goal:
    return Goal.model_validate(
        {"objective": "x", "agent": {"model": "a/b"}, "validators": validators}
    )


@pytest.fixture
def goal_file(tmp_path: Path) -> Path:
    path = tmp_path / "ws" / "goal.toml"
    path.parent.mkdir()
    path.write_text("grep -q 4711 done\n")
    return path


def test_a_goal_file_with_hidden_validators_is_secret(goal_file: Path) -> None:
    (goal_file.parent / "link.toml").symlink_to("goal.toml")
    assert secret_goal_file(goal(OPEN, HIDDEN), goal_file) == goal_file
    assert (
        secret_goal_file(goal(OPEN, HIDDEN), goal_file.parent / "link.toml")
        == goal_file
    )


def test_a_goal_file_without_hidden_validators_stays_readable(goal_file: Path) -> None:
    assert secret_goal_file(goal(OPEN), goal_file) is None


def test_a_goal_file_that_a_validator_reads_stays_readable(goal_file: Path) -> None:
    reads = {"name": "lint", "run": "toml-lint goal.toml"}
    assert secret_goal_file(goal(reads, HIDDEN), goal_file) is None


def test_what_the_repository_holds_is_no_secret(goal_file: Path) -> None:
    git(goal_file.parent, "init", "-q")
    assert secret_goal_file(goal(OPEN, HIDDEN), goal_file) == goal_file
    git(goal_file.parent, "add", "goal.toml")
    assert secret_goal_file(goal(OPEN, HIDDEN), goal_file) is None


def test_another_file_under_its_name_in_the_repository_tells_nothing(
    goal_file: Path,
) -> None:
    text = goal_file.read_text()
    git(goal_file.parent, "init", "-q")
    goal_file.write_text("")  # as commands in the sandbox see it
    git(goal_file.parent, "add", "goal.toml")
    goal_file.write_text(text)
    assert secret_goal_file(goal(OPEN, HIDDEN), goal_file) == goal_file


@pytest.mark.parametrize("sandboxed", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_a_run_is_labelled_unless_the_goal_file_is_kept_from_its_commands(
    goal_file: Path, sandboxed: bool, known: bool
) -> None:
    secret = goal_file if known else None
    readable = hidden_readable(
        goal(OPEN, HIDDEN), goal_file.parent, secret, sandboxed=sandboxed
    )
    assert readable is not (sandboxed and known)
    assert not hidden_readable(goal(OPEN), goal_file.parent, None, sandboxed=sandboxed)


def test_a_script_of_a_hidden_validator_in_the_workspace_can_be_read(
    goal_file: Path,
) -> None:
    (goal_file.parent / "secret.sh").write_text("exit 0\n")
    scripted = {"name": "secret", "run": "sh secret.sh", "hidden": True}
    assert hidden_readable(
        goal(OPEN, scripted), goal_file.parent, goal_file, sandboxed=True
    )
